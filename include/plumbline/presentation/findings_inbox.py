"""A finding's headline in words, and findings as an inbox: those of one cause together, the gravest and dearest first."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from plumbline.archive import FindingView
from plumbline.findings.cause import FLEET, witnesses
from plumbline.findings.decision_change import is_decision_change
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_name, format_relative_change
from plumbline.results.finding import Finding

SYMBOLS = {"page": "✖", "warn": "▲", "info": "●"}
_SPEED = ("latency", "throughput")
_VERBS = {"training": "trains", "inference": "serves"}


def headline_in_words(finding: Finding, usd: float | None = None) -> str:
    """One line, such as `p5 trains gpt-1b 7.9 % slower since November 2026: about 5,700 USD a month`. `usd`: more a month, if known."""
    money = f": {about_monthly(usd)}" if usd else ""
    return f"{what_happened(finding)}{money}"


def what_happened(finding: Finding) -> str:
    """The change without its cost; of a metric that is no speed, or of facts, prices and failures, the finding's own title."""
    metric = METRICS.get(finding.metric or "")
    begin = format_begin(finding)
    if finding.cause is not None:
        what, _, left = finding.title.partition("; ")
        where = "" if finding.provider == FLEET else f"{finding.provider}: "
        return f"{where}{what} since {begin}" + (f"; {left}" if left else "")
    if finding.is_decision_change:
        return f"{finding.title or finding.subject} since {begin}"
    if finding.kind != "performance" or finding.effect is None or metric is None or finding.workload_kind not in _VERBS:
        description = finding.title or finding.subject
        workload_suffix = f" {finding.workload}" if finding.workload else ""
        return (
            f"{finding.provider}{workload_suffix}: {description} since {begin}"
            if begin and begin not in description
            else f"{finding.provider}{workload_suffix}: {description}"
        )
    share = format_relative_change(finding.effect)[1:]
    if metric.group not in _SPEED or metric.direction == "informative":
        change = "higher" if finding.effect > 0 else "lower"
        return f"{finding.provider}: {format_name(metric.name)} of {finding.workload} {share} {change} since {begin}"
    better = (finding.effect > 0) == (metric.direction == "higher_is_better")
    return f"{finding.provider} {_VERBS[finding.workload_kind]} {finding.workload} {share} {'faster' if better else 'slower'} since {begin}"


def format_begin(finding: Finding) -> str:
    """The month of a monthly campaign in words, another campaign's id, or the day."""
    begin = finding.campaign_id or finding.since or ""
    if month_match := re.fullmatch(r"(\d{4})-(0[1-9]|1[0-2])", begin):
        return f"{month_name[int(month_match[2])]} {month_match[1]}"
    return f"campaign {begin}" if finding.campaign_id else begin


def about_monthly(usd: float) -> str:
    """An amount a month to two digits."""
    amount = float(f"{abs(usd):.2g}")
    text = f"{amount:,.0f}" if amount >= 10 else f"{amount:g}"
    return f"{'about' if usd > 0 else 'saves about'} {text} USD a month"


_GRAVITY = {"page": 0, "warn": 1, "info": 2}


@dataclass(frozen=True)
class InboxItem:
    """One finding. `finding`: None of one that an older version stored. `usd`: what it costs a month, negative if it saves; None: not known."""

    view: FindingView
    finding: Finding | None
    words: str
    usd: float | None

    @cached_property
    def causes(self) -> frozenset[str]:
        """What may have caused it; findings of one provider that share one belong together."""
        if self.finding is None:
            return frozenset()
        if self.finding.kind == "price":
            return frozenset(("price",))
        return frozenset(() if is_decision_change(self.finding) else self.finding.attributed_to)


@dataclass(frozen=True)
class InboxGroup:
    """Findings of one cause: the one that leads, and its siblings."""

    lead: InboxItem
    siblings: tuple[InboxItem, ...]

    @property
    def items(self) -> tuple[InboxItem, ...]:
        return (self.lead, *self.siblings)

    @property
    def usd(self) -> float | None:
        known = [item.usd for item in self.items if item.usd is not None]
        return sum(known) if known else None


def group_findings(views: Sequence[FindingView], monthly: Mapping[str, float | None]) -> tuple[InboxGroup, ...]:
    """`monthly`: by finding id, what each costs a month in USD."""
    items = [_item(view, monthly.get(view.finding_id)) for view in views]
    witness_of = witnesses(item.finding.with_state(item.view.state) for item in items if item.finding is not None)
    groups: list[list[InboxItem]] = []
    for item in items:
        related = [g for g in groups if any(_share_cause(item, other, witness_of) for other in g)]
        groups = [g for g in groups if g not in related] + [[*(member for g in related for member in g), item]]
    inbox_groups = []
    for group in groups:
        lead, *siblings = sorted(group, key=_order)
        inbox_groups.append(InboxGroup(lead, tuple(siblings)))
    return tuple(sorted(inbox_groups, key=lambda g: (*_order(g.lead)[:1], -(g.usd or 0.0), *_order(g.lead)[1:])))


def _share_cause(first: InboxItem, second: InboxItem, witness_of: Mapping[str, str]) -> bool:
    one, other = (item.view.finding_id for item in (first, second))
    if witness_of.get(one, one) == witness_of.get(other, other):
        return True
    # What several providers share is together by its own finding.
    return first.view.provider == second.view.provider != FLEET and bool(first.causes & second.causes)


def _order(item: InboxItem) -> tuple[int, bool, float, float, str]:
    # Of equal gravity what a user feels comes before what explains it, and the cause of several before its witnesses.
    explains = item.view.kind == "environment" and (item.finding is None or item.finding.cause is None)
    return _GRAVITY[item.view.severity], explains, -(item.usd or 0.0), -item.view.opened_at.timestamp(), item.view.finding_id


def _item(view: FindingView, usd: float | None) -> InboxItem:
    try:
        finding = Finding.of(view.detail)
    except (LookupError, TypeError, ValueError, AttributeError):
        headline = view.headline.removeprefix(view.severity.upper()).strip().removeprefix("SIMULATED").strip()
        return InboxItem(view, None, headline, usd)
    return InboxItem(view, finding, headline_in_words(finding, usd), usd)
