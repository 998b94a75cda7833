"""Findings, decisions and prices as the archive stores them (records) and returns them (views): what archive and analysis share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, Literal

from plumbline.metrics.units import MONEY, Amount
from plumbline.results.finding import UNREADABLE_ERRORS, Finding, FindingKind, FindingState, Severity


@dataclass(frozen=True)
class FindingRecord:
    """A drift that was detected. `finding_id` is stable: the same drift found again has the same one.

    `effect` and its interval are ratios to the baseline minus 1. The archive sets the times, and keeps the state it has.
    """

    finding_id: str
    series_key: str
    campaign_id: str | None
    provider: str
    kind: FindingKind
    severity: Severity
    headline: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    metric: str | None = None
    state: FindingState = "open"


@dataclass(frozen=True)
class FindingView(FindingRecord):
    """A finding as archived."""

    opened_at: datetime = field(kw_only=True)
    updated_at: datetime = field(kw_only=True)
    last_seen_at: datetime = field(kw_only=True)
    snoozed_until: datetime | None = field(default=None, kw_only=True)
    """Until when no reminder is sent."""

    @property
    def providers(self) -> tuple[str, ...]:
        """The finding's provider; for a shared cause, all affected providers."""
        return tuple((self.detail.get("cause") or {}).get("providers") or (self.provider,))

    def shown_by(self, campaign_id: str) -> bool:
        """Whether the campaign showed it, first or again. A silence names the last campaign that was not silent: that one did not."""
        began = campaign_id == self.campaign_id and self.detail.get("subject") != "silence"
        return began or campaign_id in self.detail.get("seen_in", ())


def read_finding(view: FindingView) -> Finding | None:
    """The finding in its present state; None for one of another shape, such as a newer version's."""
    try:
        return Finding.of(view.detail).with_state(view.state)
    except UNREADABLE_ERRORS:
        return None


@dataclass(frozen=True)
class DecisionRecord:
    """A ranking of providers for one team; `decision_id` is a hash of what it was made from."""

    decision_id: str
    team: str
    kind: Literal["training", "inference"]
    winner: str | None
    probability: float | None
    detail: Annotated[Mapping[str, Any], MONEY]


@dataclass(frozen=True)
class DecisionView(DecisionRecord):
    decided_at: datetime


@dataclass(frozen=True)
class PriceRecord:
    """A price of the whole instance, as its source names it; a reserved one may have a `term` such as 1y."""

    provider: str
    purchase: str
    usd_per_hour: Amount
    since: date
    until: date | None
    source: str
    term: str | None = None


@dataclass(frozen=True)
class PriceView(PriceRecord):
    first_seen_at: datetime = field(kw_only=True)
    last_seen_at: datetime = field(kw_only=True)
