"""Decisions computed on request, with the weights of a page's address if it has some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.answers.current_results import decide_teams
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Preference, parse_weights
from plumbline.declarations.choices import matching_preferences

PROVIDERS_SHOWN = 12
"""Providers of a ranking on a page and in price sensitivity, which takes minutes with hundreds."""
SLIDER_PREFIX = "w."
"""Prefix of a weight in a URL: `w.time_to_first_token=30`."""


@dataclass  # not frozen: it caches `near`
class AdjustedDecision:
    """A decision, and its preference with the declared weights."""

    decided: TeamDecision
    declared: Preference

    @cached_property
    def near(self) -> TeamDecision:
        """The choice among the first PROVIDERS_SHOWN."""
        return self.decided.leading(PROVIDERS_SHOWN)

    @property
    def more(self) -> int:
        return len(self.decided.decision.ranking) - len(self.near.decision.ranking)

    @property
    def moved(self) -> bool:
        current, declared_weights = self.decided.preference.weights, self.declared.weights
        return any(abs(current.get(name, 0.0) - weight) > 1e-9 for name, weight in declared_weights.items())


class InvalidDecisionQuery(ValueError):
    """The message says what was expected. `field`: of the query, empty for what concerns several."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


def find_preference(declared: Declarations, team: str, kind: WorkloadKind, workload: str | None = None) -> Preference:
    """The declared choice, of this workload alone if named. LookupError if team, kind or workload match none; InvalidDecisionQuery if several
    choices match."""
    preferences = [p for _, _, p in declared.choices(team, kind) if workload is None or workload in p.workloads]
    if len(preferences) > 1:
        names = ", ".join(" + ".join(p.workloads) for p in preferences)
        raise InvalidDecisionQuery(
            f"team {team} makes {len(preferences)} {kind} choices ({names}); expected one of their workloads with it"
        )
    return matching_preferences(declared, team, kind, workload)[0][2]


def compute_decision(
    archive: Archive,
    declared: Declarations,
    on: date,
    team: str,
    kind: WorkloadKind,
    workload: str | None = None,
    weights: Mapping[str, float] | None = None,
) -> AdjustedDecision:
    """One choice from the archive. LookupError and InvalidDecisionQuery as `find_preference`, the latter also for invalid weights."""
    preference = find_preference(declared, team, kind, workload)
    try:
        (decided,) = decide_teams(archive, declared, on, team=team, kind=kind, workload=workload, weights=weights)
    except ValueError as error:
        raise InvalidDecisionQuery(str(error), "weights") from error
    return AdjustedDecision(decided, preference)


def query_weights(text: str) -> dict[str, float]:
    """`parse_weights`, with InvalidDecisionQuery."""
    try:
        return parse_weights(text)
    except ValueError as error:
        raise InvalidDecisionQuery(str(error), "weights") from None


def slider_weights(query: Mapping[str, str]) -> dict[str, float]:
    """Weights from sliders, normalized to a sum of 1; empty without sliders. InvalidDecisionQuery for a value outside 0 to 100 and if all are 0."""
    values: dict[str, float] = {}
    for name, value in query.items():
        if name.startswith(SLIDER_PREFIX):
            try:
                values[name.removeprefix(SLIDER_PREFIX)] = weight = float(value)
            except ValueError:
                raise InvalidDecisionQuery(f"{name}={value} is no number; expected one from 0 to 100", name) from None
            if not 0 <= weight <= 100:
                raise InvalidDecisionQuery(f"{name}={value} is out of range; expected a number from 0 to 100", name)
    total = sum(values.values())
    if values and total <= 0:
        raise InvalidDecisionQuery("every weight is 0; expected at least one above it")
    return {name: value / total for name, value in values.items()}
