"""A finding: one detected change of one provider, with the series, metrics or facts that show it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from plumbline.metrics.formatting import shorten
from plumbline.metrics.time_spans import day_is_over
from plumbline.metrics.units import Amount

FindingKind = Literal["performance", "environment", "price", "reliability", "missing_data", "self"]
Severity = Literal["info", "warn", "page"]
FindingState = Literal["open", "acknowledged", "accepted", "resolved"]
FLEET = "fleet"
"""The provider's name in a finding whose cause several providers share."""
SEVERITIES: tuple[Severity, ...] = ("page", "warn", "info")
"""Severities, the most severe first."""
SYMBOLS: dict[Severity, str] = {"page": "✖", "warn": "▲", "info": "●"}
OPEN_STATES: tuple[FindingState, ...] = ("open", "acknowledged")
"""States of findings that are not settled."""
DECISION_CHANGE_PREFIX = "winner/"
"""Prefix of the subject of a team's changed first choice."""


def gravity(severity: str) -> int:
    """Its place among SEVERITIES, 0 for the most severe; unknown names come last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


@dataclass(frozen=True)
class Member:
    """One metric of a grouped performance finding, or one changed fact of an environment finding (numbers None)."""

    name: str
    text: str
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    q: float | None = None
    verdict: str | None = None
    series_key: str | None = None
    crept: bool = False

    @property
    def fact(self) -> str:
        """The changed fact of an environment finding's member, without its group."""
        return self.text.partition(": ")[2] or self.text


@dataclass(frozen=True)
class CauseEvidence:
    """What a pooled verdict on one cause rests on. `names`: the values that came, such as `driver 570.86.15`; `facts`: their keys. `providers`:
    those that have them, `left` those still on another value. `moved` of `series` moved the same way, on `moved_providers`; `against`: series
    without the change that they were compared with. `p`: of the effect. `cloud`: of what a cloud changed, with `facts` among it. `clouds`: the
    witnesses. `missing` and `decides`: why the fleet cannot tell whether the facts are the cause, and what would; else empty."""

    facts: tuple[str, ...]
    names: tuple[str, ...]
    verdict: str
    providers: tuple[str, ...]
    left: tuple[str, ...]
    moved: int
    series: int
    moved_providers: int
    against: int
    p: float
    cloud: str = ""
    clouds: int = 0
    missing: str = ""
    decides: str = ""


@dataclass(frozen=True)
class ChoiceMove:
    """A team's first choice for a kind of workload that moved. `before`, `after`: providers; None where none is eligible. `clear`: whether the new
    one reaches the team's bar, or has no rival. `stays`: the team declares that it runs there already, so that nothing moves."""

    team: str
    kind: str
    before: str | None
    after: str | None
    clear: bool = True
    stays: bool = False


@dataclass(frozen=True)
class PriceMove:
    """A provider's price in USD per instance-hour before and after a change."""

    provider: str
    before: Amount
    after: Amount


@dataclass(frozen=True)
class PromisedCredit:
    """What a broken promise grants, without money: a `share` of the bill of `month` (`2026-09`), None where none is declared. `until`: the last day
    (ISO 8601) on which it can be claimed, empty where the contract's term is not declared. `shared`: it is granted once for the month, however many
    promises are broken in it."""

    share: Amount | None
    month: str
    until: str = ""
    shared: bool = False

    def lapsed(self, today: date) -> bool:
        """Whether it is too late to claim it."""
        return day_is_over(date.fromisoformat(self.until) if self.until else None, today)


@dataclass(frozen=True)
class EndingHours:
    """Reserved hours that end on the day `until` (ISO 8601). USD a month: `paid` now, and what renewing at this price saves against the cheapest
    other price, negative if it costs more, None where that is not known."""

    until: str
    paid: Amount
    renewing: Amount | None


@dataclass(frozen=True)
class Finding:
    """A drift of one provider that began in one campaign: of one series, or of all that moved together. Or one that no campaign measured,
    such as a price or a driver that changed between two: `campaign_id` is None then, `since` the day (ISO 8601), and the provider as a
    whole has it: `series_key`, `workload_kind` and `workload` are empty, as are the lists of series, until a campaign shows it too.

    `series_key`, the workload and the numbers are those of the series that leads; `series` names all of them, `standing` those that still
    show it, `seen_in` the campaigns since the first that showed it too. ValueError unless it has either a campaign or a day.

    `finding_id` is stable: the same drift of the same campaign has the same id however often it is found. `evidence` is one line with the
    numbers that show it, `title` what happened in a few words; `explanation` says what it is attributed to. `attributed_to` names the facts, most
    plausible first, empty when nothing recorded explains it. Effects are fractions of the baseline. `instead_of`: of a team's first choice that
    changed, who it was before. `remedy`: of a finding of kind `self`, what repairs it. `cause`: of the one verdict on a change that several
    series share.

    `causes`, `consequence` and `moves` are what `findings.headline` writes in the first line: what changed in words, most plausible first, what
    follows from it, and the first choices that it moved. `prices`: of a changed price, of all providers that took the same change.
    `credit`: of a broken promise. `ending`: of a reservation.
    """

    finding_id: str
    series_key: str
    campaign_id: str | None
    kind: FindingKind
    severity: Severity
    evidence: str
    explanation: str
    provider: str
    workload_kind: str
    workload: str
    subject: str
    title: str = ""
    simulated: bool = False
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    metric: str | None = None
    members: tuple[Member, ...] = ()
    attributed_to: tuple[str, ...] = ()
    baseline_campaigns: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    seen_in: tuple[str, ...] = ()
    state: FindingState = "open"
    since: str | None = None
    instead_of: str | None = None
    remedy: str = ""
    cause: CauseEvidence | None = None
    causes: tuple[str, ...] = ()
    consequence: str = ""
    moves: tuple[ChoiceMove, ...] = ()
    prices: tuple[PriceMove, ...] = ()
    credit: PromisedCredit | None = None
    ending: EndingHours | None = None

    def __post_init__(self) -> None:
        if (self.campaign_id is None) == (self.since is None):
            raise ValueError(
                f"finding {self.finding_id} has campaign_id {self.campaign_id!r} and since {self.since!r}; expected exactly one: the campaign "
                "that showed it first, or the day"
            )

    @property
    def began(self) -> str:
        """When it was first seen, such as `campaign 2026-11` or `2026-11-21`."""
        return f"campaign {self.campaign_id}" if self.campaign_id is not None else str(self.since)

    @property
    def campaigns(self) -> tuple[str, ...]:
        """The campaigns that showed it, oldest first; empty as long as none did."""
        return (*([self.campaign_id] if self.campaign_id is not None else []), *self.seen_in)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Provider, kind and subject: a later finding with the same ones is about the same thing."""
        return self.provider, self.kind, self.subject

    @property
    def concerns(self) -> str:
        """The affected workload, such as `training gpt`; empty for the provider as a whole."""
        return f"{self.workload_kind} {self.workload}".strip()

    def direction_of(self, series_key: str) -> str | None:
        """Of a performance finding, whether the series `regressed` or `improved`, by the metric that leads it; None for other kinds.

        One cause can make one series slower and another faster. A series that no member is of goes with the group's lead.
        """
        if self.kind != "performance" or not self.members:
            return None
        return next((m.verdict for m in self.members if m.series_key == series_key), self.members[0].verdict)

    def about(self, members: tuple[Member, ...]) -> Finding:
        """The part of an environment finding that concerns these facts."""
        if members == self.members:
            return self
        return replace(
            self,
            members=members,
            attributed_to=tuple(m.name for m in members),
            title=f"environment changed: {members[0].fact}",
            evidence=f"environment changed: {shorten(m.fact for m in members)}",
        )

    def with_state(self, state: FindingState) -> Finding:
        return replace(self, state=state)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `Finding.of` reads it back."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Finding:
        """A finding from `to_dict` or its JSON; unknown keys are ignored. LookupError names what is missing or of another shape."""
        try:
            made = _adapter().validate_python(data)
        except ValidationError as error:
            wrong = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
            raise LookupError(f"finding {data.get('finding_id')} is of another shape: {wrong}") from error
        # One without groups is about its own series.
        series = made.series or ((made.series_key,) if made.series_key else ())
        return replace(made, series=series, standing=made.standing if "standing" in data else series)


@cache
def _adapter() -> TypeAdapter[Finding]:
    return TypeAdapter(Finding)


def finding_id(provider: str, began: str, kind: FindingKind, subject: str) -> str:
    """Twelve hex digits that name this drift of this provider: the same ones also when another series joins it. `began`: the campaign that
    showed it first, or the day."""
    return hashlib.sha256("\n".join((provider, began, kind, subject)).encode()).hexdigest()[:12]


UNREADABLE_ERRORS = (LookupError, TypeError, ValueError, AttributeError)
"""Raised by reading a stored finding of another shape; an archive that does not answer raises others."""
