"""Acceptance criteria: `p95 request_scheduled_latency <= 900ms in steady`, one line each, quoted on every scorecard."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from pydantic import model_validator

from plumbline.declarations import units
from plumbline.declarations.base import Declared
from plumbline.declarations.metrics import STATISTICS, Unit, metric
from plumbline.declarations.phases import PHASES

SHAPE = "[STATISTIC] METRIC <=|>= VALUE in PHASE, such as: p95 request_scheduled_latency <= 900ms in steady"
_LINE = re.compile(
    r"^\s*(?:(?P<statistic>[a-z]\w*)\s+)?(?P<metric>[a-z][a-z0-9_]*)\s*(?P<op><=|>=)\s*(?P<value>.+?)\s+in\s+(?P<phase>[a-z_]+)\s*$"
)
_PERCENTILE = {"min": 0.0, "p50": 50.0, "median": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


class Criterion(Declared):
    """One acceptance criterion. `limit` is in the metric's unit (seconds, per second, fraction …)."""

    text: str
    metric: str
    statistic: str
    op: Literal["<=", ">="]
    limit: float
    phase: str

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: object) -> object:
        return parse_criterion(value) if isinstance(value, str) else value

    def met_by(self, value: float) -> bool:
        """Whether a measured value (in the metric's unit) meets the limit."""
        return value <= self.limit if self.op == "<=" else value >= self.limit


def parse_criterion(line: str) -> dict[str, object]:
    """The fields of one criterion; ValueError naming what is wrong and the expected shape."""
    match = _LINE.match(line)
    if match is None:
        raise ValueError(f'"{line}" is not a criterion; expected {SHAPE}')
    try:
        known = metric(match["metric"])
    except KeyError as error:
        raise ValueError(f'{error.args[0]} (in the criterion "{line}")') from None
    statistic = match["statistic"] or known.statistic
    if statistic not in STATISTICS:
        raise ValueError(f'unknown statistic "{statistic}" in "{line}"; expected one of {", ".join(STATISTICS)}')
    if match["phase"] not in PHASES:
        raise ValueError(f'unknown phase "{match["phase"]}" in "{line}"; expected one of {", ".join(PHASES)}')
    return {
        "text": " ".join(line.split()),
        "metric": known.name,
        "statistic": statistic,
        "op": match["op"],
        "limit": value_in(known.unit, match["value"]),
        "phase": match["phase"],
    }


def value_in(unit: Unit, text: str) -> float:
    """A criterion's value in the unit of its metric; ValueError if it is written in another one."""
    scales: dict[str, tuple[dict[str, float], str, str]] = {
        "s": (units.SECONDS, "a duration", "900ms"),
        "1/s": (units.PER_SECOND, "a rate", "8/s"),
        "ratio": ({**units.FRACTION, "": 1.0}, "a percentage or a plain ratio", "99%"),
        "bytes": (units.BYTES, "a size", "8GiB"),
        "tokens/s": ({"tokens/s": 1.0}, "a token rate", "350tokens/s"),
        "samples/s": ({"samples/s": 1.0}, "a sample rate", "40samples/s"),
        "bytes/s": ({f"{name}/s": factor for name, factor in units.BYTES.items()}, "a bandwidth", "20GB/s"),
        "FLOP/s": ({"GFLOP/s": 1e9, "TFLOP/s": 1e12}, "an arithmetic rate", "400TFLOP/s"),
        "USD": ({"USD": 1.0}, "an amount", "4.20USD"),
        "W": ({"W": 1.0, "kW": 1e3}, "a power", "700W"),
        "J": ({"J": 1.0, "kJ": 1e3}, "an energy", "2J"),
        "count": ({"": 1.0}, "a count", "10"),
        "1": ({"": 1.0}, "a plain number", "1.5"),
        "nats": ({"": 1.0, "nats": 1.0}, "a loss", "2.5"),
    }
    table, what, example = scales[unit]
    if "" in table and re.fullmatch(r"[+-]?\d+(\.\d+)?", text.strip()):
        return float(text)
    return units.parse(text, table, what, example)


def contradiction(criteria: Iterable[Criterion]) -> str | None:
    """What makes a list of criteria impossible or pointless to meet, in words; None if nothing does.

    An upper limit on a high percentile below the limit on a lower one (p99 <= 500ms while p50 <= 900ms) says that the p50 limit
    can never bind: somebody mixed the two up.
    """
    seen = list(criteria)
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            if (a.metric, a.phase) != (b.metric, b.phase):
                continue
            if a.statistic == b.statistic and a.op == b.op:
                return f'"{a.text}" and "{b.text}" limit the same statistic twice; expected one criterion each'
            if a.op == b.op and a.statistic in _PERCENTILE and b.statistic in _PERCENTILE:
                low, high = sorted((a, b), key=lambda c: _PERCENTILE[c.statistic])
                if _PERCENTILE[low.statistic] < _PERCENTILE[high.statistic] and high.limit < low.limit:
                    return (
                        f'"{high.text}" is below "{low.text}"; expected the limit of {high.statistic} at or above that of {low.statistic}'
                    )
            if {a.op, b.op} == {"<=", ">="}:
                upper, lower = (a, b) if a.op == "<=" else (b, a)
                # What holds a low percentile up holds every higher one up too.
                same = a.statistic == b.statistic or _PERCENTILE.get(lower.statistic, 101) <= _PERCENTILE.get(upper.statistic, -1)
                if same and upper.limit < lower.limit:
                    return f'"{upper.text}" and "{lower.text}" cannot both be met; expected an upper limit above the lower one'
    return None
