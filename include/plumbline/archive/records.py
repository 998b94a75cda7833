"""What was concluded, as the archive takes it in (records) and hands it out (views): frozen plain data, never database objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

FindingKind = Literal["performance", "environment", "price", "reliability", "missing_data", "self"]
Severity = Literal["info", "warn", "page"]
FindingState = Literal["open", "acknowledged", "accepted", "resolved"]


@dataclass(frozen=True)
class BaselineView:
    """A campaign that a series is, or was, held against."""

    series_key: str
    campaign_id: str
    rule: Literal["bootstrap", "decision"]
    accepted_at: datetime
    accepted_by: str
    why: str
    superseded_at: datetime | None


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
    """Until when nobody is to be told again of what is known already."""

    def shown_by(self, campaign_id: str) -> bool:
        """Whether the campaign showed it, first or again. A silence names the last campaign that was not silent: that one did not."""
        began = campaign_id == self.campaign_id and self.detail.get("subject") != "silence"
        return began or campaign_id in self.detail.get("seen_in", ())


@dataclass(frozen=True)
class IncidentRecord:
    """The thread of a finding in one channel. `ts` is the channel's own id of the thread's first message.

    `severity` is the gravest that people were told of, empty before that. `said`: the posts of the thread by what they are for
    (`opened`, `escalated`, `reminder 1`, …), each with `at`, when it was begun, and `ts`, empty as long as it is not known to have arrived.
    """

    finding_id: str
    channel: str
    ts: str
    state: str
    message_hash: str
    severity: str = ""
    said: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class IncidentView(IncidentRecord):
    posted_at: datetime = field(kw_only=True)
    updated_at: datetime = field(kw_only=True)


@dataclass(frozen=True)
class DecisionRecord:
    """A ranking of providers for one team; `decision_id` is a hash of what it was made from."""

    decision_id: str
    team: str
    kind: Literal["training", "inference"]
    winner: str | None
    probability: float | None
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class DecisionView(DecisionRecord):
    decided_at: datetime


@dataclass(frozen=True)
class PriceRecord:
    """A price of the whole instance, as its source names it; a reserved one may have a `term` such as 1y."""

    provider: str
    purchase: str
    usd_per_hour: float
    since: date
    until: date | None
    source: str
    term: str | None = None


@dataclass(frozen=True)
class PriceView(PriceRecord):
    first_seen_at: datetime = field(kw_only=True)
    last_seen_at: datetime = field(kw_only=True)


@dataclass(frozen=True)
class QuarantineRecord:
    """A result document that could not be believed: where it is kept, its SHA-256 and why. It says `trial_id` and `attempt` of whose folder it
    was in, not of what it claims to be."""

    campaign_id: str
    trial_id: str
    attempt: int
    uri: str
    sha256: str
    reason: str


@dataclass(frozen=True)
class QuarantineView(QuarantineRecord):
    """`kept` until a retry believes it; then it is `released`."""

    quarantine_id: str
    state: Literal["kept", "released"]
    quarantined_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class AuditView:
    """Who did what to which subject, and why."""

    at: datetime
    who: str
    what: str
    subject: str
    why: str
    detail: Mapping[str, Any]
