"""Parts of a finding's first line that several types share."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence
from datetime import date

from plumbline.metrics.formatting import format_change, shorten
from plumbline.results.finding import Finding

_SHARE = re.compile(r" \([^()]*\)$")


def without_share(text: str) -> str:
    """A fact in words without the share of trials or nodes that show it."""
    return _SHARE.sub("", text)


def on_provider(causes: Sequence[str], provider: str) -> str:
    """Causes in words and where they are; empty without one."""
    return f"{shorten(causes)} on {provider}" if causes else ""


def price_cause(provider: str, effect: float, since: str | None, price: str = "") -> str:
    """The cause as text, such as `p5 raised its spot price 30 % on 1 September 2026`. `effect`: a fraction; `since`: ISO 8601; `price`: which of its prices."""
    day = f" on {format_day(since)}" if since else ""
    return f"{provider} {'raised' if effect > 0 else 'cut'} its {f'{price} ' if price else ''}price {format_change(effect)[1:]}{day}"


def format_day(day: str) -> str:
    """`2026-09-01` as `1 September 2026`; other texts as they are."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        return day
    on = date.fromisoformat(day)
    return f"{on.day} {month_name[on.month]} {on.year}"


def format_begin(finding: Finding) -> str:
    """The month of a monthly campaign in words, another campaign's id, or the day."""
    begin = finding.campaign_id or finding.since or ""
    if month_match := re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", begin):
        return f"{month_name[int(month_match[2])]} {month_match[1]}"
    return f"campaign {begin}" if finding.campaign_id else format_day(begin)


def titled(finding: Finding, caused: bool, *, dated: bool = False) -> str:
    """The title with where it is, and since when unless the title says it (`dated`)."""
    begin, title = format_begin(finding), finding.title or finding.subject
    where = f" in {finding.workload}" if finding.workload else ""
    line = f"{title}{where}" if caused else f"{finding.provider}{f' {finding.workload}' if finding.workload else ''}: {title}"
    return f"{line} since {begin}" if begin and not dated and begin not in title and str(finding.since) not in title else line
