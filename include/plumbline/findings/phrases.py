"""Parts of a finding's first line that several types share."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Sequence

from plumbline.metrics.formatting import format_day, shorten
from plumbline.results.finding import Finding

_SHARE = re.compile(r" \([^()]*\)$")


def without_share(text: str) -> str:
    """A fact in words without the share of trials or nodes that show it."""
    return _SHARE.sub("", text)


def on_provider(causes: Sequence[str], provider: str) -> str:
    """Causes in words and where they are; empty without one."""
    return f"{shorten(causes)} on {provider}" if causes else ""


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
