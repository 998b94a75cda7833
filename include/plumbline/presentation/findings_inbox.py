"""Findings as an inbox: those of one cause together, the gravest and dearest first, each with a headline in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.archive import FindingView
from plumbline.findings.decision_change import is_decision_change
from plumbline.presentation.finding_words import headline_in_words
from plumbline.results.finding import Finding

_GRAVITY = {"page": 0, "warn": 1, "info": 2}


@dataclass(frozen=True)
class InboxItem:
    """One finding. `finding`: None of one that an older version stored. `usd`: what it costs a month, negative if it saves; None: not known."""

    view: FindingView
    finding: Finding | None
    words: str
    usd: float | None

    @property
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
    groups: list[list[InboxItem]] = []
    for item in items:
        related = [g for g in groups if g[0].view.provider == item.view.provider and any(item.causes & other.causes for other in g)]
        groups = [g for g in groups if g not in related] + [[*(one for g in related for one in g), item]]
    made = []
    for group in groups:
        lead, *siblings = sorted(group, key=_order)
        made.append(InboxGroup(lead, tuple(siblings)))
    return tuple(sorted(made, key=lambda g: (*_order(g.lead)[:1], -(g.usd or 0.0), *_order(g.lead)[1:])))


def _order(item: InboxItem) -> tuple[int, bool, float, float, str]:
    # Of equal gravity what a user feels comes before what explains it.
    explains = item.view.kind == "environment"
    return _GRAVITY[item.view.severity], explains, -(item.usd or 0.0), -item.view.opened_at.timestamp(), item.view.finding_id


def _item(view: FindingView, usd: float | None) -> InboxItem:
    try:
        finding = Finding.of(view.detail)
    except (LookupError, TypeError, ValueError, AttributeError):
        plain = view.headline.removeprefix(view.severity.upper()).strip().removeprefix("SIMULATED").strip()
        return InboxItem(view, None, plain, usd)
    return InboxItem(view, finding, headline_in_words(finding, usd), usd)
