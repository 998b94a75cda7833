"""Decisions computed on request, with the caller's weights if given, and their JSON shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pydantic.dataclasses import dataclass as validated

from plumbline.analysis.decisions.current_results import TeamDecision, matching_preferences
from plumbline.analysis.decisions.decision_record import DecisionDocument, decision_document
from plumbline.analysis.decisions.experiments import Experiment
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.archive import Archive
from plumbline.dashboard.rendering import API_PREFIX, PageRenderer
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations, Preference, parse_weights
from plumbline.workflows.current_results import decide_teams
from plumbline.workflows.experiments import next_experiments

PROVIDERS_SHOWN = 12
"""Providers of a ranking on a page and in price sensitivity, which takes minutes with hundreds."""
SLIDER_PREFIX = "w."
"""Prefix of a weight in a URL: `w.time_to_first_token=30`."""


@validated(frozen=True)
class LiveDecision(DecisionDocument):
    """A decision made on request, of its first PROVIDERS_SHOWN. `declared_weights`: without the caller's; `candidates`: how many were ranked;
    `experiments`: what to measure again for the most certainty per USD, the best first."""

    declared_weights: Mapping[str, float] = field(default_factory=dict)
    candidates: int = 0
    experiments: tuple[Experiment, ...] = ()


@dataclass  # not frozen: it caches `near`
class AdjustedDecision:
    """A decision, and its preference with the declared weights."""

    decided: TeamDecision
    declared: Preference

    @cached_property
    def near(self) -> TeamDecision:
        """The same choice among the first PROVIDERS_SHOWN."""
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
        raise InvalidDecisionQuery(
            f"team {team} makes {len(preferences)} {kind} choices ({_choice_names(preferences)}); expected one of their workloads with it"
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


def _choice_names(preferences: Iterable[Preference]) -> str:
    return ", ".join(" + ".join(p.workloads) for p in preferences)


def decision_answer(declared: Declarations, adjusted: AdjustedDecision) -> LiveDecision:
    """The decision in the shape of the API."""
    document, decided = decision_document(adjusted.decided, adjusted.near), adjusted.decided
    return LiveDecision(
        **{
            **vars(document),
            "campaigns": {r.provider: document.campaigns[r.provider] for r in document.ranking if r.provider in document.campaigns},
            "cheapest": tuple(replace(c, setups=c.setups[:PROVIDERS_SHOWN]) for c in document.cheapest),
            "left_out": document.left_out[:PROVIDERS_SHOWN],
        },
        declared_weights=adjusted.declared.weights,
        candidates=len(decided.decision.ranking),
        experiments=next_experiments(declared, decided),
    )


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


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, choices: AnswerCache) -> APIRouter:
    """`/api/v1/decisions/{team}/{kind}`."""
    routes = APIRouter(prefix=API_PREFIX.rstrip("/"))

    @routes.get("/decisions/{team}/{kind}", tags=["concluded"])
    def decide_now(
        team: str,
        kind: WorkloadKind,
        workload: Annotated[
            str | None, Query(description="this workload alone; needed where a team makes several choices of the kind")
        ] = None,
        weights: Annotated[
            str,
            Query(
                max_length=2000,
                description="metric=weight, separated by commas; the others are rescaled",
                examples=["time_to_first_token=0.5"],
            ),
        ] = "",
    ) -> LiveDecision:
        """Who should run it as of now: the newest trials of each provider at the prices of today. Nothing is stored."""
        try:
            archive, declarations, today, wanted = reader.archive(), declared.now(), pages.now().date(), query_weights(weights)
            key = ("answer", team, kind, workload, tuple(sorted(wanted.items())))
            return choices.get(
                archive,
                declarations,
                today,
                key,
                lambda: decision_answer(declarations, compute_decision(archive, declarations, today, team, kind, workload, wanted)),
            )
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from error
        except InvalidDecisionQuery as error:
            raise HTTPException(422, str(error)) from error

    return routes
