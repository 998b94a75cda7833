"""Findings as an inbox: those of one cause together, open ones before settled ones, then the most severe and dearest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plumbline.archive import Archive, FindingView
from plumbline.findings.cause import witnesses
from plumbline.findings.headline import headline
from plumbline.findings.types import about_facts, type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.metrics.units import Amount
from plumbline.results.finding import FLEET, OPEN_STATES, SEVERITIES, UNREADABLE_ERRORS, Finding, gravity
from plumbline.results.sample import Series
from plumbline.results.stored import read_finding

if TYPE_CHECKING:
    from plumbline.answers.ledger import Ledger
    from plumbline.findings.monthly_cost import MonthlyCost

MAX_OPEN_FINDINGS = 500


@dataclass(frozen=True)
class InboxItem:
    """One finding. `finding`: None of one that an older version stored. `usd`: what its own row of the ledger says that it costs a month, negative if
    it saves; None without a row, or without a price."""

    view: FindingView
    finding: Finding | None
    words: str
    usd: Amount | None

    @property
    def is_decision_change(self) -> bool:
        return self.finding is not None and FirstChoice.has(self.finding)

    @cached_property
    def causes(self) -> frozenset[str]:
        """Possible causes; findings of one provider that share one belong together."""
        return frozenset() if self.finding is None else type_of(self.finding).together(self.finding)


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
        """What its findings cost a month; without any that costs, what they save, as a negative amount; None: not known."""
        known = [item.usd for item in self.items if item.usd is not None]
        costs = [usd for usd in known if usd >= 0]
        return sum(costs or known) if known else None

    @property
    def saved(self) -> float:
        """What others of them save a month, beside what the group costs."""
        return -sum(item.usd for item in self.items if item.usd is not None and item.usd < 0) if (self.usd or 0.0) >= 0 else 0.0


def count_severities(views: Iterable[FindingView]) -> str:
    """Counts as text, such as `1 page, 3 warn`, the most severe first; empty without a finding."""
    count = Counter(view.severity for view in views)
    return ", ".join(f"{count[severity]} {severity}" for severity in SEVERITIES if count[severity])


def unsettled_findings(archive: Archive) -> list[FindingView]:
    """Open and acknowledged ones, at most `MAX_OPEN_FINDINGS`, newest first."""
    return archive.findings(OPEN_STATES, latest=MAX_OPEN_FINDINGS)


def workloads_of(view: FindingView) -> set[str]:
    """Workloads that a finding names; none of a provider as a whole."""
    workloads = set()
    for key in {view.series_key, *(view.detail.get("series") or ())} - {"", None}:
        with suppress(*UNREADABLE_ERRORS):
            workloads.add(Series.parse(key).workload)
    return workloads


def severity_order(views: Iterable[FindingView]) -> list[int]:
    """A key that sorts what has the most of the most severe findings first."""
    count = Counter(view.severity for view in views)
    return [-count[severity] for severity in SEVERITIES]


def group_findings(views: Sequence[FindingView], costs: Mapping[str, MonthlyCost], ledger: Ledger | None = None) -> tuple[InboxGroup, ...]:
    """`costs`: by finding id, what each alone costs a month or grants once, for its headline; `ledger`: the amounts that add up, None for a
    reader without access to money."""
    items = [_item(v, costs.get(v.finding_id), None if ledger is None else ledger.change_of(v.finding_id)) for v in views]
    witness_of = witnesses(item.finding for item in items if item.finding is not None)
    groups: list[list[InboxItem]] = []
    for item in items:
        related = [g for g in groups if any(_share_cause(item, other, witness_of) for other in g)]
        groups = [g for g in groups if g not in related] + [[*(member for g in related for member in g), item]]
    inbox_groups = []
    for group in groups:
        lead, *siblings = sorted(group, key=_order)
        inbox_groups.append(InboxGroup(lead, tuple(siblings)))
    return tuple(sorted(inbox_groups, key=lambda g: (*_order(g.lead)[:2], -(g.usd or 0.0), *_order(g.lead)[2:])))


def inbox_view(groups: Iterable[InboxGroup], ledger: Ledger | None, after: str | None = None) -> dict[str, Any]:
    """The findings as JSON says them. `ledger`: of the open ones, None for a reader without access to costs: `total` is the sum of its rows, which
    are `amounts`; `after`: where the list goes on."""
    findings = [replace(item.view, headline=item.words) for group in groups for item in group.items]
    total, amounts = (None, None) if ledger is None else (ledger.total(), ledger.rows)
    return {"findings": findings, "total": total, "amounts": amounts, "after": after}


def _share_cause(first: InboxItem, second: InboxItem, witness_of: Mapping[str, str]) -> bool:
    one, other = (item.view.finding_id for item in (first, second))
    if witness_of.get(one, one) == witness_of.get(other, other):
        return True
    # What several providers share is together by its own finding.
    return first.view.provider == second.view.provider != FLEET and bool(first.causes & second.causes)


def _order(item: InboxItem) -> tuple[bool, int, int, float, float, str]:
    # Of equal gravity what a user feels comes before what explains it, and the cause of several before its witnesses; a change that moved something
    # before one that moved nothing.
    explains = 0 if item.finding is None else 2 * type_of(item.finding).explains + about_facts(item.finding)
    settled = item.view.state not in OPEN_STATES
    return settled, gravity(item.view.severity), explains, -(item.usd or 0.0), -item.view.opened_at.timestamp(), item.view.finding_id


def _item(view: FindingView, alone: MonthlyCost | None, usd: float | None) -> InboxItem:
    finding = read_finding(view)
    if finding is None:
        return InboxItem(view, None, view.headline, usd)
    first = alone and headline(finding, alone.usd if usd is None else usd, alone.credit, alone.claim)
    return InboxItem(view, finding, first or headline(finding), usd)
