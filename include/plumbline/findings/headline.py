"""A finding's headline, the same on every surface: what caused it, what follows, and what it costs a month.

Severity, state and simulation are beside it, never in it.
"""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TypeVar

from plumbline.findings.price import CHANGED_SUBJECT, HELD_SUBJECT, format_price_name
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_change, format_monthly_change, format_name, join_words, shorten
from plumbline.results.finding import ChoiceMove, Finding

_SPEED = ("latency", "throughput")
_VERBS = {"training": "trains", "inference": "serves"}
_SHARE = re.compile(r" \([^()]*\)$")
_MOST_TARGETS = 2
"""New first choices that are named: with the provider that caused the move three names."""


def headline(finding: Finding, usd: float | None = None) -> str:
    """One line, such as `p5 raised its price 30 % on 1 September 2026: product moves to p4, about 1,200 USD a month more`.

    `usd`: more a month, negative if less; None where it is unknown or not for the reader.
    """
    cause, consequence = cause_of(finding), _consequence(finding)
    line = f"{cause}: {consequence}" if cause and consequence else cause or consequence
    return f"{line}, {format_monthly_change(usd)}" if usd else line


_Line = TypeVar("_Line")


def one_per_headline(lines: Iterable[tuple[str, _Line]]) -> dict[str, list[_Line]]:
    """Findings grouped by headline, in order: first choices that one cause moved share one."""
    stories: dict[str, list[_Line]] = {}
    for text, line in lines:
        stories.setdefault(text, []).append(line)
    return stories


def without_share(text: str) -> str:
    """A fact in words without the share of trials or nodes that show it."""
    return _SHARE.sub("", text)


def price_cause(provider: str, effect: float, since: str | None, price: str = "") -> str:
    """The cause as text, such as `p5 raised its spot price 30 % on 1 September 2026`. `effect`: a fraction; `since`: ISO 8601; `price`: which of its prices."""
    day = f" on {format_day(since)}" if since else ""
    return f"{provider} {'raised' if effect > 0 else 'cut'} its {f'{price} ' if price else ''}price {format_change(effect)[1:]}{day}"


def is_price_change(finding: Finding) -> bool:
    """Whether it is a provider's changed price: neither a held one nor a first choice that a price moved."""
    changed = finding.kind == "price" and not finding.is_decision_change and not finding.subject.startswith(HELD_SUBJECT)
    return changed and finding.effect is not None


def describe_price_change(finding: Finding, who: str) -> str:
    """`price_cause` of such a finding. `who`: its provider, or the cloud whose regions took the same change."""
    assert finding.effect is not None  # is_price_change
    name = finding.subject.removeprefix(f"{CHANGED_SUBJECT} ")
    # The list price by the hour is just its price.
    return price_cause(who, finding.effect, finding.since, "" if name == format_price_name("on_demand", None) else name)


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


def cause_of(finding: Finding) -> str:
    """The change in words; empty if nothing recorded explains the finding."""
    if finding.cause is not None:
        return finding.cause.names[0]
    if finding.is_decision_change:
        return join_words(finding.causes or finding.attributed_to)
    if finding.kind == "price":
        if not is_price_change(finding):
            return f"{finding.provider}: {finding.title or finding.subject} since {format_begin(finding)}"
        return finding.causes[0] if finding.causes else describe_price_change(finding, finding.provider)
    if finding.kind == "environment" and not finding.causes:
        causes: Sequence[str] = [without_share(m.fact) for m in finding.members]
    elif finding.kind == "reliability":
        causes = [m.text for m in finding.members]
    else:
        causes = finding.causes
    if not causes:
        return ""
    when = f" since {format_begin(finding)}" if finding.kind == "environment" else ""
    return f"{shorten(causes)} on {finding.provider}{when}"


def _consequence(finding: Finding) -> str:
    if finding.moves:
        return _moves(finding.moves)
    if finding.cause is not None:
        what, *left = finding.title.removeprefix(f"{finding.cause.names[0]}: ").split("; ")
        return "; ".join((f"{what} since {format_begin(finding)}", *left))
    begin, caused = format_begin(finding), bool(cause_of(finding))
    if finding.state == "accepted" and is_price_change(finding):
        return "costs use the new price"
    if finding.kind in ("environment", "price") and caused:
        return finding.consequence
    metric = METRICS.get(finding.metric or "")
    if finding.kind == "performance" and finding.effect is not None and metric is not None and finding.workload_kind in _VERBS:
        share = format_change(finding.effect)[1:]
        if metric.group not in _SPEED or metric.direction == "informative":
            what = f"{format_name(metric.name)} of {finding.workload} {share} {'higher' if finding.effect > 0 else 'lower'}"
            what = what if caused else f"{finding.provider}: {what}"
        else:
            better = (finding.effect > 0) == (metric.direction == "higher_is_better")
            change, verb = f"{share} {'faster' if better else 'slower'}", _VERBS[finding.workload_kind]
            what = (
                f"{finding.workload} {verb} {change}"
                if caused and verb == "trains"
                else f"{finding.provider} {verb} {finding.workload} {change}"
            )
        others = len(finding.series) - 1
        also = f", {others} more series moved too" if others > 0 else ""
        return f"{what} since {begin}{also}{'' if finding.attributed_to else ', cause unknown'}"
    title = finding.title or finding.subject
    where = f" in {finding.workload}" if finding.workload else ""
    line = f"{title}{where}" if caused else f"{finding.provider}{f' {finding.workload}' if finding.workload else ''}: {title}"
    dated = finding.kind == "missing_data" and finding.since  # its title says since when
    return f"{line} since {begin}" if begin and not dated and begin not in title and str(finding.since) not in title else line


def _moves(moves: Sequence[ChoiceMove]) -> str:
    """`product moves to p4, platform to p6`: the choices by their new first; teams with several choices name the kind."""
    by_target: dict[tuple[str | None, bool], list[str]] = {}
    kinds = {move.team: {other.kind for other in moves if other.team == move.team} for move in moves}
    for move in moves:
        who = f"{move.team} ({move.kind})" if len(kinds[move.team]) > 1 else move.team
        teams = by_target.setdefault((move.after, move.before is None), [])
        if who not in teams:
            teams.append(who)
    parts: list[str] = []
    verbs = 0
    for (after, first), teams in list(by_target.items())[:_MOST_TARGETS]:
        one, who = len(teams) == 1, shorten(teams) if len(teams) > 3 else join_words(teams)
        if after is None:
            parts.append(f"no provider is eligible for {who}")
        elif first:
            parts.append(f"{who} {'chooses' if one else 'choose'} {after}")
        else:
            parts.append(f"{who} to {after}" if verbs else f"{who} {'moves' if one else 'move'} to {after}")
            verbs += 1
    more = len(by_target) - _MOST_TARGETS
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")
