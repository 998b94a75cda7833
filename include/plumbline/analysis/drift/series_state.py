"""The state of a series in a campaign, made from its comparison with the baseline. Every page, report and command reads it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from plumbline.analysis.drift.comparison import Comparison, MetricComparison
from plumbline.analysis.drift.effect import Scale, to_analysis_scale
from plumbline.metrics import leading_order

SeriesStateName = Literal["drifted", "suspected", "moved", "cannot_tell", "steady"]
STATES: tuple[SeriesStateName, ...] = get_args(SeriesStateName)
"""The most severe first."""
_VERDICTS: tuple[tuple[tuple[str, ...], SeriesStateName], ...] = (
    (("regressed", "improved"), "drifted"),
    (("suspected",), "suspected"),
    (("moved",), "moved"),
)


@dataclass(frozen=True)
class SeriesState:
    """`metric`: the number that decided the state. `effect`: its change; `detectable`: the smallest change that the repeats would have shown;
    `threshold`: the change that would be a drift; each on the `scale` and in the `unit` of its row. `repeats`: how many more would settle
    a doubt; None: not known, or more than 200."""

    state: SeriesStateName
    metric: str = ""
    effect: float | None = None
    detectable: float | None = None
    repeats: int | None = None
    threshold: float | None = None
    scale: Scale = "ratio"
    unit: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> SeriesState:
        """The state that a review stored."""
        names = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in names})


def state_of(comparison: Comparison) -> SeriesState:
    """The most severe of the leading metrics' states if one of them changed, else that of the workload's first metric; cannot tell without a
    comparison."""
    judged = [row for row in comparison.rows if row.family == "lead" and row.verdict is not None and row.effect is not None]
    if comparison.problems or not judged:
        return SeriesState("cannot_tell")
    ordered = sorted(judged, key=lambda row: leading_order(row.metric))
    for verdicts, state in _VERDICTS:
        row = next((row for row in ordered if row.verdict in verdicts), None)
        if row is not None:
            return _state(state, row)
    return _state("steady" if ordered[0].verdict == "unchanged" else "cannot_tell", ordered[0])


def is_move(row: MetricComparison, gate: float) -> bool:
    """Whether a change below its threshold was seen: larger than what the repeats would have shown, and shown by them."""
    if row.effect is None or row.mde is None or row.p is None:
        return False
    return row.p <= gate and to_analysis_scale(row.effect, row.scale) > to_analysis_scale(row.mde, row.scale)


def _state(state: SeriesStateName, row: MetricComparison) -> SeriesState:
    return SeriesState(state, row.metric, row.effect, row.mde, row.repeats_needed, row.warn, row.scale, row.unit)
