"""A team: the metrics it weighs when it chooses a provider, for training and inference apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from plumbline.declarations.base import Declared, Name
from plumbline.declarations.workloads import Criterion, parse_metric_value
from plumbline.metrics import METRICS, Metric, metric

_MULTIPLE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*x\s+best\s*$")


class LinearValue(Declared):
    """0 at `worst` and beyond it, 1 at `best` and beyond it, a straight line between, as people write it.

    Both are numbers in the metric's unit (`{worst: 2s, best: 200ms}`) or multiples of the best eligible provider's (`{worst: 3x best}`,
    where `best` is `1x best` if it is left out).
    """

    worst: str
    best: str = "1x best"

    @property
    def relative(self) -> bool:
        """Whether both ends are multiples of the best."""
        return _MULTIPLE.match(self.worst) is not None and _MULTIPLE.match(self.best) is not None

    def ends(self, metric: Metric) -> tuple[float, float]:
        """Worst and best: multiples of the best if `relative`, else in the metric's unit. ValueError if they cannot be read."""
        if self.relative:
            worst, best = (float(_MULTIPLE.match(text)[1]) for text in (self.worst, self.best))  # type: ignore[index]
            return worst, best
        return parse_metric_value(metric.unit, self.worst), parse_metric_value(metric.unit, self.best)


def is_failure_share(metric: Metric) -> bool:
    """Whether the metric is a share that should be 0, such as error_rate: its ratio is taken of what did not fail."""
    return metric.unit == "ratio" and metric.group == "reliability" and metric.direction == "lower_is_better"


def value_function_error(function: LinearValue, metric: Metric) -> str | None:
    """What is wrong with a value function for this metric, with what is expected instead; None if nothing is."""
    multiples = [_MULTIPLE.match(text) is not None for text in (function.worst, function.best)]
    if metric.unit == "USD" and not all(multiples):
        return (
            f"{metric.name} is money, and limits in money would let a price change that is the same for all reorder providers; "
            "expected ratio, or multiples of the best such as {worst: 3x best}"
        )
    if any(multiples) and not all(multiples):
        return f"{metric.name} has one end as a multiple of the best and one as a number; expected both alike"
    if all(multiples) and is_failure_share(metric):
        return f"{metric.name} may be 0, of which every multiple is 0; expected numbers such as {{worst: 5%, best: 0%}}"
    try:
        worst, best = function.ends(metric)
    except ValueError as error:
        return f"{metric.name}: {error}"
    lower = metric.direction == "lower_is_better"
    if worst == best or (worst < best) is lower:
        side = "lower" if lower else "higher"
        return f"{metric.name} is better when {side}, and worst {function.worst} is no worse than best {function.best}; expected them the other way round"
    if function.relative and (best < 1 if lower else best > 1):
        return f"{metric.name}: nobody is better than the best, so {function.best} would never be reached; expected 1x best"
    return None


Weight = Annotated[float, Field(gt=0, le=1)]


class Preference(Declared):
    """What one choice of a provider rests on. Weights sum to 1; a provider that fails a gate is not eligible, whatever its score.

    `groups` is for writing: a weight may name a group of the catalogue (`latency: 0.4`), which is spread evenly over the metrics that
    `groups` lists for it; in memory `weights` is always by metric. `values`: how a metric's number becomes a value from 0 to 1; what
    is not named here is valued by its ratio to the best.
    """

    workloads: tuple[Name, ...] = Field(min_length=1, description="the workloads whose results count")
    groups: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="metrics of a group, such as latency: [time_to_first_token]"
    )
    weights: dict[str, Weight] = Field(min_length=1)
    values: dict[str, LinearValue] = Field(default_factory=dict, description="by metric: ratio, or {worst: 2s, best: 200ms}")
    gates: tuple[Criterion, ...] = ()

    @field_validator("groups")
    @classmethod
    def _of_the_group(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for group, names in value.items():
            if not names:
                raise ValueError(f'"{group}" lists no metric; expected at least one of its group')
            for name in names:
                if (found := _weighable(name)).group != group:
                    raise ValueError(f'"{name}" is of the group {found.group}, not of {group}; expected the metrics of one group together')
        return value

    @field_validator("weights", mode="before")
    @classmethod
    def _spread(cls, value: Any, info: ValidationInfo) -> Any:
        groups: dict[str, tuple[str, ...]] = info.data.get("groups") or {}
        if not isinstance(value, dict):
            return value
        spread: dict[str, Any] = {}
        for name, weight in value.items():
            numeric = isinstance(weight, int | float) and not isinstance(weight, bool)
            for member in groups[name] if name in groups and numeric else (name,):
                if member in spread:
                    raise ValueError(f'"{member}" is weighed twice; expected it once, by itself or in its group')
                spread[member] = weight / len(groups[name]) if name in groups and numeric else weight
        return spread

    @field_validator("weights")
    @classmethod
    def _known_metrics(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if "groups" not in info.data:  # what is wrong there is said there
            return value
        for name in value:
            if name in _GROUPS and name not in METRICS:
                raise ValueError(
                    f'"{name}" is a group without its metrics; expected them in groups, such as groups: {{{name}: [{_GROUPS[name]}]}}'
                )
            _weighable(name)
        idle = [group for group, names in info.data["groups"].items() if any(n not in value for n in names)]
        if idle:
            raise ValueError(f'"{idle[0]}" stands in groups and has no weight; expected such as {idle[0]}: 0.4')
        total = sum(value.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"weights sum to {total:g}; expected 1")
        return value

    @field_validator("values", mode="before")
    @classmethod
    def _weighed(cls, value: Any, info: ValidationInfo) -> Any:
        weights = info.data.get("weights")
        if not isinstance(value, dict):
            return value
        for name, function in value.items():
            if weights is not None and name not in weights:
                raise ValueError(f'"{name}" has a value function and no weight; expected one of {", ".join(weights)}')
            if function != "ratio" and not isinstance(function, dict | LinearValue):
                raise ValueError(f'"{name}": {function!r} is no value function; expected ratio, or such as {{worst: 2s, best: 200ms}}')
        return {name: function for name, function in value.items() if function != "ratio"}

    @field_validator("values")
    @classmethod
    def _fitting(cls, value: dict[str, LinearValue], info: ValidationInfo) -> dict[str, LinearValue]:
        for name, function in value.items():
            if "weights" in info.data and (wrong := value_function_error(function, _weighable(name))):
                raise ValueError(wrong)
        return value


_GROUPS = {m.group: m.name for m in METRICS.values() if m.direction != "informative"}


def _weighable(name: str) -> Metric:
    try:
        known = metric(name)
    except KeyError as error:
        raise ValueError(error.args[0]) from None
    if known.direction == "informative":
        raise ValueError(f'"{name}" is neither better high nor low and cannot be weighed; expected a metric with a direction')
    return known


class AdditionalPreferences(Declared):
    """More choices of the same team, each about workloads of its own: what runs on other hardware is decided by itself."""

    training: tuple[Preference, ...] = ()
    inference: tuple[Preference, ...] = ()


class Team(Declared):
    """One YAML file under `include/config/teams/`."""

    name: Name
    description: str = ""
    training: Preference | None = None
    inference: Preference | None = None
    also: AdditionalPreferences = AdditionalPreferences()

    @model_validator(mode="after")
    def _something(self) -> Team:
        if self.training is None and self.inference is None:
            raise ValueError("neither training nor inference; expected at least one with its workloads and weights")
        for kind in _KINDS:
            named = [w for preference in self.preferences(kind) for w in dict.fromkeys(preference.workloads)]
            if twice := sorted({w for w in named if named.count(w) > 1}):
                raise ValueError(f'"{twice[0]}" stands in two {kind} choices; expected each workload in one')
        return self

    def preferences(self, kind: Literal["training", "inference"]) -> tuple[Preference, ...]:
        """Every choice of that kind, the main one first; a workload stands in one of them at most."""
        main = self.training if kind == "training" else self.inference
        return (*((main,) if main else ()), *(self.also.training if kind == "training" else self.also.inference))


_KINDS: tuple[Literal["training"], Literal["inference"]] = ("training", "inference")


def with_weights(preference: Preference, weights: Mapping[str, float]) -> Preference:
    """The preference with these metrics' weights set, each from 0 to 1, and the others rescaled in proportion to fill up to 1.

    A weight of 0 takes the metric out. Raises ValueError for a metric that is not weighed, or weights that leave nothing to fill up.
    """
    for name, weight in weights.items():
        if name not in preference.weights:
            raise ValueError(f'"{name}" is not weighed here; expected one of {", ".join(preference.weights)}')
        if not 0 <= weight <= 1:
            raise ValueError(f"{name}={weight:g} is no weight; expected 0 to 1")
    rest = {name: weight for name, weight in preference.weights.items() if name not in weights}
    left = 1 - sum(weights.values())
    if left < -1e-9 or (not rest and abs(left) > 1e-6):
        expected = "at most 1" if rest else "1, since no other metric is left to fill up"
        raise ValueError(f"the weights sum to {1 - left:g}; expected {expected}")
    share = max(left, 0.0) / sum(rest.values()) if rest else 0.0
    moved = {name: weights.get(name, weight * share) for name, weight in preference.weights.items()}
    kept = {name: weight for name, weight in moved.items() if weight > 1e-12}
    return preference.model_copy(update={"weights": kept, "groups": {}, "values": _subset(kept, preference.values)})


def _subset(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}
