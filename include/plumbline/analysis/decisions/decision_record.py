"""A decision with all that it rests on, as one type: what a run stores is what every reader of stored decisions gets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from plumbline.analysis.decisions.cheapest import Cheapest
from plumbline.analysis.decisions.current_results import ExcludedSeries, TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceSwing, WeightSwing
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import digest
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics import is_of_provider, metric_of
from plumbline.metrics.units import Amount
from plumbline.results.stored import DecisionView

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PriceAtDecision:
    """The instance's price in USD per hour and per `unit` (GPU-hour, core-hour), both None where `unknown` says why; since when, by which source."""

    usd_per_hour: Amount | None = None
    usd_per_unit: Amount | None = None
    unit: str = "GPU-hour"
    since: date | None = None
    source: str | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class Inputs:
    """Hashes of what a decision was made from: the question, the trials that count, their costs. All the same: the same decision."""

    question: str
    trials: str
    costs: str


@dataclass(frozen=True)
class PreviousChoice:
    """The previous decision of the same choice: its first provider, and each workload's cheapest that met the requirements."""

    first: str | None
    cheapest: Mapping[str, str | None]


@validated(frozen=True)
class DecisionDocument(Decision):
    """The question, the ranking, prices with their basis, what would change it, and the cheapest setup of each workload. Its note and its reasons
    are text: `words.decision_record` makes it.

    `campaigns`: by provider, those whose trials count. `inputs`: None of an older version's. `why`: the occasion; `after`: the id of the
    decision before, `before` what it chose if it had the same question, `instead_of` its first if that was another. A live decision has no
    `decision_id` and no `decided_at`.
    """

    day: date | None = None
    purchase: Purchase = "on_demand"
    simulated: bool = False
    preference: Mapping[str, Any] = field(default_factory=dict)
    inputs: Inputs | None = None
    prices: Mapping[str, PriceAtDecision] = field(default_factory=dict)
    campaigns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[ExcludedSeries, ...] = ()
    weight_swings: tuple[WeightSwing, ...] = ()
    price_swings: tuple[PriceSwing, ...] = ()
    cheapest: tuple[Cheapest, ...] = ()
    why: str = ""
    after: str | None = None
    before: PreviousChoice | None = None
    instead_of: str | None = None
    decision_id: str = ""
    decided_at: datetime | None = None

    @property
    def probability(self) -> float | None:
        """P(first) of the first one; None if unknown or no provider is eligible."""
        return self.first.probability_first if self.first else None

    @property
    def question(self) -> tuple[str, bool] | None:
        """Equal for two decisions about the same question; None of an older version's, which is equal to no live one's."""
        return (self.inputs.question, self.simulated) if self.inputs else None

    @property
    def as_previous(self) -> PreviousChoice:
        """The part of this decision that the next one of the same choice keeps."""
        cheapest = {c.workload: c.answer.provider if c.answer else None for c in self.cheapest}
        return PreviousChoice(self.first_name, cheapest)


_DOCUMENT = TypeAdapter(DecisionDocument)
OWN_COLUMNS = {"decision_id", "decided_at", "team", "kind"}
"""Fields that the archive keeps beside the detail."""


def read_decision(row: DecisionView) -> DecisionDocument | None:
    """A stored decision; None, with a warning that names it, if it cannot be read. Of one that holds its winner alone, that is the ranking."""
    detail = dict(row.detail)
    if "ranking" not in detail and row.winner is not None:
        detail["ranking"] = ({"provider": row.winner, "eligible": True, "probability_first": row.probability},)
    try:
        return _DOCUMENT.validate_python(
            {**{name: value for name, value in detail.items() if value is not None}, **{name: getattr(row, name) for name in OWN_COLUMNS}}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        _log.warning("decision %s is left out, it cannot be read: %s: %s", row.decision_id, where, first["msg"])
        return None


def read_decisions(rows: Iterable[DecisionView]) -> tuple[DecisionDocument, ...]:
    """Stored decisions in their order, without those that cannot be read."""
    return tuple(document for row in rows if (document := read_decision(row)) is not None)


def input_hashes(decided: TeamDecision) -> Inputs:
    """Hashes of a live decision's inputs."""
    current = decided.current
    own = sorted((t for t in current.trials if t.usable and not t.apart), key=lambda t: (t.trial_id, t.attempt))
    money = [{m.metric: m.value for m in t.metrics if metric_of(m).unit == "USD"} for t in own]
    acceptance = {name: [c.text for c in w.acceptance] for name, w in current.workloads.items()}
    preference = decided.preference.model_dump(mode="json", exclude={"groups", "certainty", "current"})  # none changes the ranking
    return Inputs(
        question=digest({"preference": preference, "purchase": current.purchase, "acceptance": acceptance}),
        trials=digest([[t.trial_id, t.attempt, t.status, *(c.limit for c in t.resolved.values()), *_of_provider(t)] for t in own]),
        costs=digest(money),
    )


def _of_provider(trial: TrialSample) -> list[float | None]:
    return [m.value for m in trial.metrics if is_of_provider(m.metric)]
