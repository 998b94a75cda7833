"""A team's preferences among providers, separate for training and inference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from plumbline.declarations.base import Declared, Name, Residency
from plumbline.declarations.workloads.workload import CATALOGUE, Criterion, catalogue_of, parse_metric_value, refused_run_cost
from plumbline.metrics import METRICS, Metric, metric, with_own

KINDS: tuple[Literal["training"], Literal["inference"]] = ("training", "inference")

_MULTIPLE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*x\s+best\s*$")


class LinearValue(Declared):
    """A linear value from 0 at `worst` to 1 at `best`, constant beyond them.

    Both are numbers in the metric's unit (`{worst: 2s, best: 200ms}`) or multiples of the best eligible provider's (`{worst: 3x best}`,
    `best` is `1x best` if omitted).
    """

    worst: str
    best: str = "1x best"

    @property
    def relative(self) -> bool:
        """Whether both ends are multiples of the best."""
        return _MULTIPLE.match(self.worst) is not None and _MULTIPLE.match(self.best) is not None

    def ends(self, metric: Metric) -> tuple[float, float]:
        """Worst and best: multiples of the best if `relative`, else in the metric's unit. ValueError if invalid."""
        if self.relative:
            worst, best = (float(_MULTIPLE.match(text)[1]) for text in (self.worst, self.best))  # type: ignore[index]
            return worst, best
        return parse_metric_value(metric.unit, self.worst), parse_metric_value(metric.unit, self.best)


def is_failure_share(metric: Metric) -> bool:
    """Whether the metric is a share of failures, such as error_rate, whose value is its complement's ratio."""
    return metric.unit == "ratio" and metric.group == "reliability" and metric.direction == "lower_is_better"


def value_function_error(function: LinearValue, metric: Metric) -> str | None:
    """Why a value function does not fit the metric, or None."""
    multiples = [_MULTIPLE.match(text) is not None for text in (function.worst, function.best)]
    if metric.unit == "USD" and not all(multiples):
        return (
            f"{metric.name} is in USD, where a price change equal for all would reorder providers; "
            "expected ratio, or multiples of the best such as {worst: 3x best}"
        )
    if any(multiples) and not all(multiples):
        return f"{metric.name} mixes a multiple of the best and a number; expected two of one kind"
    if all(multiples) and is_failure_share(metric):
        return f"{metric.name} may be 0, whose multiples are 0; expected numbers such as {{worst: 5%, best: 0%}}"
    try:
        worst, best = function.ends(metric)
    except ValueError as error:
        return f"{metric.name}: {error}"
    lower = metric.direction == "lower_is_better"
    if worst == best or (worst < best) is lower:
        side = "lower" if lower else "higher"
        return (
            f"{metric.name} is better when {side}, but worst {function.worst} is not worse than best {function.best}; expected them swapped"
        )
    if function.relative and (best < 1 if lower else best > 1):
        return f"{metric.name}: no provider can reach {function.best}; expected 1x best"
    return None


Weight = Annotated[float, Field(gt=0, le=1)]
CERTAINTY = 0.9
"""The bar of a team that declares none: from which P(first) on a first choice is a clear winner."""
Certainty = Annotated[float, Field(ge=0.5, lt=1)]


class Preference(Declared):
    """The basis of one decision. Weights sum to 1; a provider that fails a gate is not eligible.

    `groups`: a weight may name a group of the catalogue (`latency: 0.4`), spread evenly over the metrics listed here; in memory `weights` is
    always by metric. `values`: how a metric becomes a value from 0 to 1, by default its ratio to the best.
    """

    workloads: tuple[Name, ...] = Field(min_length=1, description="the workloads whose results count")
    groups: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="metrics of a group, such as latency: [time_to_first_token]"
    )
    weights: dict[str, Weight] = Field(min_length=1)
    values: dict[str, LinearValue] = Field(default_factory=dict, description="by metric: ratio, or {worst: 2s, best: 200ms}")
    gates: tuple[Criterion, ...] = ()
    residency: tuple[Residency, ...] = Field((), description="where data may stay: other providers are not eligible; anywhere if empty")
    certainty: Certainty | None = Field(None, description="from which P(first) on a first choice is a clear winner; the team's if empty")
    current: Name | None = Field(None, description="provider on which these workloads run today: savings count from it; not known if empty")

    @field_validator("groups")
    @classmethod
    def _check_groups(cls, value: dict[str, tuple[str, ...]], info: ValidationInfo) -> dict[str, tuple[str, ...]]:
        for group, names in value.items():
            if not names:
                raise ValueError(f'"{group}" lists no metric; expected at least one of its group')
            for name in names:
                if (metric := _weighable(name, info)).group != group:
                    raise ValueError(f'"{name}" is of the group {metric.group}, not of {group}; expected metrics of that group')
        return value

    @field_validator("weights", mode="before")
    @classmethod
    def _spread_groups(cls, value: Any, info: ValidationInfo) -> Any:
        groups: dict[str, tuple[str, ...]] = info.data.get("groups") or {}
        if not isinstance(value, dict):
            return value
        spread: dict[str, Any] = {}
        for name, weight in value.items():
            numeric = isinstance(weight, int | float) and not isinstance(weight, bool)
            for member in groups[name] if name in groups and numeric else (name,):
                if member in spread:
                    raise ValueError(f'"{member}" has two weights; expected one, by itself or in its group')
                spread[member] = weight / len(groups[name]) if name in groups and numeric else weight
        return spread

    @field_validator("weights")
    @classmethod
    def _known_metrics(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if "groups" not in info.data:  # reported for groups
            return value
        for name in value:
            if name in _GROUPS and name not in METRICS:
                raise ValueError(f'"{name}" is a group without metrics; expected such as groups: {{{name}: [{_GROUPS[name]}]}}')
            _weighable(name, info)
        idle = [group for group, names in info.data["groups"].items() if any(n not in value for n in names)]
        if idle:
            raise ValueError(f'"{idle[0]}" is in groups but has no weight; expected such as {idle[0]}: 0.4')
        total = sum(value.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"weights sum to {total:g}; expected 1")
        return value

    @field_validator("values", mode="before")
    @classmethod
    def _check_names(cls, value: Any, info: ValidationInfo) -> Any:
        weights = info.data.get("weights")
        if not isinstance(value, dict):
            return value
        for name, function in value.items():
            if weights is not None and name not in weights:
                raise ValueError(f'"{name}" has a value function but no weight; expected one of {", ".join(weights)}')
            if function != "ratio" and not isinstance(function, dict | LinearValue):
                raise ValueError(f'"{name}": {function!r} is not a value function; expected ratio, or such as {{worst: 2s, best: 200ms}}')
        return {name: function for name, function in value.items() if function != "ratio"}

    @field_validator("values")
    @classmethod
    def _check_functions(cls, value: dict[str, LinearValue], info: ValidationInfo) -> dict[str, LinearValue]:
        for name, function in value.items():
            if "weights" in info.data and (wrong := value_function_error(function, _weighable(name, info))):
                raise ValueError(wrong)
        return value

    _own: tuple[Metric, ...] = PrivateAttr(())

    def model_post_init(self, context: Any) -> None:
        """Remember which weighed metrics are a workload's own."""
        catalogue = (context or {}).get(CATALOGUE, METRICS)
        self._own = tuple(catalogue[name] for name in self.weights if name not in METRICS)

    def metric(self, name: str) -> Metric:
        """A metric that it weighs, which may be a workload's own."""
        return metric(name, with_own(self._own))


_GROUPS = {m.group: m.name for m in METRICS.values() if m.direction != "informative"}


def _weighable(name: str, info: ValidationInfo) -> Metric:
    known = metric(name, catalogue_of(info))
    if known.direction == "informative":
        raise ValueError(f'"{name}" has no better direction and cannot have a weight; expected a metric with a direction')
    return known


def _refuse_run_cost(preference: Preference) -> Preference:
    for field, names in (("weights", preference.weights), ("gates", [gate.metric for gate in preference.gates])):
        if (why := refused_run_cost(names)) is not None:
            raise ValueError(f"{field}: {why}")
    return preference


InferencePreference = Annotated[Preference, AfterValidator(_refuse_run_cost)]


class AdditionalPreferences(Declared):
    """Further decisions of a team, each about its own workloads, such as those for other hardware."""

    training: tuple[Preference, ...] = ()
    inference: tuple[InferencePreference, ...] = ()


class Team(Declared):
    """One YAML file under `include/config/teams/`."""

    name: Name
    description: str = ""
    training: Preference | None = None
    inference: InferencePreference | None = None
    also: AdditionalPreferences = AdditionalPreferences()
    certainty: Certainty = Field(CERTAINTY, description="from which P(first) on a first choice is a clear winner")

    @model_validator(mode="after")
    def _require_a_preference(self) -> Team:
        if self.training is None and self.inference is None:
            raise ValueError("expected training or inference, with workloads and weights")
        for kind in KINDS:
            named = [w for preference in self.preferences(kind) for w in dict.fromkeys(preference.workloads)]
            if twice := sorted({w for w in named if named.count(w) > 1}):
                raise ValueError(f'"{twice[0]}" is in two {kind} preferences; expected each workload in one')
        return self

    def preferences(self, kind: Literal["training", "inference"]) -> tuple[Preference, ...]:
        """All of that kind, the main one first, each with its certainty. Their workloads are disjoint."""
        main = self.training if kind == "training" else self.inference
        every = (*((main,) if main else ()), *(self.also.training if kind == "training" else self.also.inference))
        return tuple(p if p.certainty else p.model_copy(update={"certainty": self.certainty}) for p in every)


def parse_weights(text: str) -> dict[str, float]:
    """Weights by metric from `time_to_first_token=0.5,cost_per_good_request=0.2`; empty for an empty text. ValueError for anything else."""
    weights: dict[str, float] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            expected = "expected a metric and a number from 0 to 1, such as time_to_first_token=0.5"
            raise ValueError(f'"{part}" is no weight; {expected}') from None
    return weights


def with_weights(preference: Preference, weights: Mapping[str, float]) -> Preference:
    """The preference with these weights, each from 0 to 1, and the others rescaled so that all sum to 1.

    A weight of 0 removes the metric. ValueError for a metric without a weight, or weights whose sum cannot become 1.
    """
    for name, weight in weights.items():
        if name not in preference.weights:
            raise ValueError(f'"{name}" is not weighed here; expected one of {", ".join(preference.weights)}')
        if not 0 <= weight <= 1:
            raise ValueError(f"weight {name}={weight:g} is out of range; expected 0 to 1")
    rest = {name: weight for name, weight in preference.weights.items() if name not in weights}
    left = 1 - sum(weights.values())
    if left < -1e-9 or (not rest and abs(left) > 1e-6):
        expected = "at most 1" if rest else "1, since no other metric has a weight"
        raise ValueError(f"the weights sum to {1 - left:g}; expected {expected}")
    share = max(left, 0.0) / sum(rest.values()) if rest else 0.0
    moved = {name: weights.get(name, weight * share) for name, weight in preference.weights.items()}
    positive = {name: weight for name, weight in moved.items() if weight > 1e-12}
    values = {name: function for name, function in preference.values.items() if name in positive}
    return preference.model_copy(update={"weights": positive, "groups": {}, "values": values})
