"""The catalogue of metrics and the vocabulary of a measurement: phase, metric, statistic, unit, direction.

The rows are in `catalogue.toml`. Metric, statistic, unit and direction are separate columns everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, Literal, get_args

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
class Metric:
    """One row of the catalogue; `catalogue.toml` describes the columns."""

    name: str
    unit: Unit
    direction: Direction
    statistic: str
    group: Group
    description: str
    warn: float | None = None
    page: float | None = None
    sample: Sample | None = None
    leads: Mapping[str, int] = field(default_factory=dict, hash=False)
    declared: bool = False
    of_provider: bool = False


def _row(group: Any, name: str, better: str | None = None, statistic: str = "value", **columns: Any) -> Metric:
    direction: Any = f"{better}_is_better" if better else "informative"
    return Metric(name=name, group=group, direction=direction, statistic=statistic, **columns)


def _read() -> dict[str, Metric]:
    tables = tomllib.loads(files(__name__).joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return {name: _row(group, name, **columns) for group, rows in tables.items() for name, columns in rows.items()}


METRICS = _read()
_ORDER = {name: i for i, name in enumerate(METRICS)}


def catalogue_order(name: str) -> tuple[int, str]:
    """Sorts metrics as the catalogue lists them; those that it does not list come last, by name."""
    return _ORDER.get(name, len(_ORDER)), name


_DECLARED_WARN, _DECLARED_PAGE = 0.05, 0.10


def declare(name: str, unit: Unit, direction: Direction, *, replace: bool = False) -> None:
    """Add a metric that is a workload's own, and that drifts from 5 % on if one side is better. A declared one with the same name stays, unless
    `replace`. ValueError if the catalogue has the name with another unit or direction."""
    known = METRICS.get(name)
    if known is not None and not known.declared and (known.of_provider or (known.unit, known.direction) != (unit, direction)):
        raise ValueError(f"{name} is a metric of the catalogue, in {known.unit}, {known.direction}; expected these, or another name")
    if known is None or (known.declared and replace):
        warn, page = (None, None) if direction == "informative" else (_DECLARED_WARN, _DECLARED_PAGE)
        group: Group = "latency" if unit == "s" else "throughput"
        METRICS[name] = Metric(name, unit, direction, "value", group, "as the workload declares it", warn, page, declared=True)


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


def metric(name: str) -> Metric:
    """The metric called `name`. Raises UnknownMetric with the nearest names."""
    try:
        return METRICS[name]
    except KeyError:
        near = get_close_matches(name, METRICS, n=3) or sorted(METRICS)[:3]
        raise UnknownMetric(f'unknown metric "{name}"; expected one of the catalogue, such as {", ".join(near)}') from None
