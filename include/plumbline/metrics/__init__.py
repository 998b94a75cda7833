"""The catalogue of metrics and the vocabulary of a measurement: phase, metric, statistic, unit, direction.

The rows are in `catalogue.toml`. Metric, statistic, unit and direction are separate columns everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, Protocol, get_args

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Direction = Literal["lower_is_better", "higher_is_better", "informative"]
Unit = Literal["s", "1/s", "tokens/s", "samples/s", "ratio", "count", "bytes", "bytes/s", "FLOP/s", "W", "J", "USD", "nats", "1"]
Group = Literal["latency", "throughput", "reliability", "cost", "start_up", "recovery", "hardware", "client", "quality"]
Sample = Literal["requests", "share"]
STATISTICS = ("value", "min", "p50", "p90", "p95", "p99", "max", "mean", "median", "stddev", "cv")

Phase = Literal[
    "environment", "cold_start", "warmup", "steady", "context", "stress", "sweep", "burst", "scale_out", "fault", "recovery", "cooldown"
]
PHASES: tuple[str, ...] = get_args(Phase)
"""In the only order in which they may come."""
LoadPhase = Literal["warmup", "steady", "context", "stress", "sweep", "burst", "scale_out", "fault", "recovery"]
"""Phases in which the client drives load. Every inference trial measures the cold start, which is not declared."""


@dataclass(frozen=True)
class ValueRange:
    """Possible values, in the metric's unit. `low` itself is allowed unless `above` (strictly above low)."""

    low: float
    high: float
    above: bool = True

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        return f"{'above' if self.above else 'at least'} {self.low:g} and at most {self.high:g}"


_OF_CV = ValueRange(0.0, 1e3, above=False)


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue; `catalogue.toml` describes the columns."""

    name: str
    unit: Unit
    direction: Direction
    statistic: str
    group: Group
    description: str
    range: ValueRange
    warn: float | None = None
    page: float | None = None
    sample: Sample | None = None
    leads: Mapping[str, int] = field(default_factory=dict, hash=False)
    declared: bool = False
    of_provider: bool = False

    def possible(self, statistic: str) -> ValueRange:
        """The possible values of a statistic, in the metric's unit; of `cv` a plain ratio."""
        if statistic == "cv":
            return _OF_CV
        return replace(self.range, above=False) if statistic == "stddev" else self.range


def _range(ends: Mapping[str, float], of_unit: Mapping[str, float]) -> ValueRange:
    """The range with these ends; an absent one is that of the unit."""
    lower = ends if "from" in ends or "above" in ends else of_unit
    above = "above" in lower
    return ValueRange(float(lower["above" if above else "from"]), float(ends.get("to", of_unit["to"])), above)


def _row(group: Any, name: str, unit: Unit, better: str | None = None, statistic: str = "value", **columns: Any) -> Metric:
    direction: Any = f"{better}_is_better" if better else "informative"
    columns["range"] = _range(columns.get("range", {}), _UNITS[unit])
    return Metric(name=name, group=group, unit=unit, direction=direction, statistic=statistic, **columns)


_TABLES = tomllib.loads(files(__name__).joinpath("catalogue.toml").read_text(encoding="utf-8"))
_UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(_TABLES["units"])
"""The possible values of each unit, as `catalogue.toml` writes a range."""

METRICS: Mapping[str, Metric] = MappingProxyType(
    {name: _row(group, name, **columns) for group, rows in _TABLES.items() if group != "units" for name, columns in rows.items()}
)
"""Every metric of the catalogue by name. It never changes: what a workload declares beside it is an `own_metric`."""
_ORDER = {name: i for i, name in enumerate(METRICS)}


def catalogue_order(name: str) -> tuple[int, str]:
    """Sorts metrics as the catalogue lists them; those that it does not list come last, by name."""
    return _ORDER.get(name, len(_ORDER)), name


_OWN_WARN, _OWN_PAGE = 0.05, 0.10


@lru_cache(maxsize=1024)
def own_metric(name: str, unit: Unit, direction: Direction) -> Metric:
    """A metric that is a workload's own, and that drifts from 5 % on if one side is better; the catalogue's row of that name if it has one.
    ValueError if the catalogue has the name with another unit or direction."""
    if (known := METRICS.get(name)) is not None:
        if known.of_provider or (known.unit, known.direction) != (unit, direction):
            raise ValueError(f"{name} is a metric of the catalogue, in {known.unit}, {known.direction}; expected these, or another name")
        return known
    if unit not in _UNITS or direction not in get_args(Direction):
        raise ValueError(f'"{name}" is in {unit}, {direction}; expected a unit and a direction of plumbline.metrics')
    warn, page = (None, None) if direction == "informative" else (_OWN_WARN, _OWN_PAGE)
    group: Group = "latency" if unit == "s" else "throughput"
    return Metric(name, unit, direction, "value", group, "as the workload declares it", _range({}, _UNITS[unit]), warn, page, declared=True)


class Measured(Protocol):
    """A number with the name of its metric, such as a row of a document, a sample, a card or a comparison."""

    @property
    def metric(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def direction(self) -> str: ...


def metric_of(number: Measured) -> Metric:
    """The metric of a number: the catalogue's, else its workload's own, by the number's unit and direction. ValueError for another unit."""
    return METRICS.get(number.metric) or own_metric(number.metric, number.unit, number.direction)


def with_own(own: Iterable[Metric]) -> Mapping[str, Metric]:
    """The catalogue and a workload's own metrics, by name."""
    return _with_own(tuple(own))


@lru_cache(maxsize=256)
def _with_own(own: tuple[Metric, ...]) -> Mapping[str, Metric]:
    return MappingProxyType({**METRICS, **{known.name: known for known in own}}) if own else METRICS


def is_of_provider(name: str) -> bool:
    """Whether it is a number of the provider, which no trial measures."""
    return (known := METRICS.get(name)) is not None and known.of_provider


def _leads() -> dict[str, tuple[tuple[str, ...], ...]]:
    places: dict[tuple[str, int], list[str]] = {}
    for row in METRICS.values():
        for role, place in row.leads.items():
            places.setdefault((role, place), []).append(row.name)
    roles = {role for role, _ in places}
    return {role: tuple(tuple(places[key]) for key in sorted(places) if key[0] == role) for role in roles}


_LEADS = _leads()


def leading(role: str) -> tuple[tuple[str, ...], ...]:
    """The metrics that are read first in a role of `catalogue.toml`, in order; of each group the first one that was measured."""
    return _LEADS[role]


def leading_names(*roles: str) -> tuple[str, ...]:
    """Names of the leading metrics without their groups."""
    return tuple(dict.fromkeys(name for role in roles for group in leading(role) for name in group))


_LEAD_ORDER = {name: i for i, name in enumerate(leading_names("training", "inference"))}


def leading_order(name: str) -> int:
    """Sorts metrics by which is read first of a workload; all others come last."""
    return _LEAD_ORDER.get(name, len(_LEAD_ORDER))


LENGTH_DEPENDENT = frozenset(
    {"request_latency", "request_scheduled_latency", "request_throughput", "output_token_throughput", "goodput", "goodput_ratio"}
)
"""Metrics that a longer answer changes; latencies a token and to the first token do not depend on where it ends."""
NATURAL_LENGTHS = "natural answer lengths"
"""Stands beside them where the model ended its answers itself."""


class UnknownMetric(KeyError, ValueError):
    """No such metric; a ValueError too, so that a declaration that names one fails its validation with this message."""

    def __str__(self) -> str:
        return str(self.args[0])


def metric(name: str, catalogue: Mapping[str, Metric] = METRICS) -> Metric:
    """The metric called `name`. Raises UnknownMetric with the nearest names."""
    try:
        return catalogue[name]
    except KeyError:
        near = get_close_matches(name, catalogue, n=3) or sorted(catalogue)[:3]
        raise UnknownMetric(f'unknown metric "{name}"; expected one of the catalogue, such as {", ".join(near)}') from None
