"""The state of a series after a comparison: what was seen, and how small a change could have been seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plumbline.analysis.drift.comparison import Comparison, MetricComparison

SeriesStateName = Literal["steady", "suspected", "cannot_tell", "drifted"]
_FIRST = (
    "step_time",
    "tokens_per_second",
    "samples_per_second",
    "time_to_first_token",
    "output_token_throughput",
    "time_per_output_token",
    "inter_token_latency",
    "request_scheduled_latency",
)


@dataclass(frozen=True)
class SeriesState:
    """`metric`: the number that decided the state. `effect`: its change; `detectable`: the smallest change that the repeats would have shown;
    both as fractions of the baseline. `repeats`: how many more would settle a doubt; None: not known, or more than 200."""

    state: SeriesStateName
    metric: str = ""
    effect: float | None = None
    detectable: float | None = None
    repeats: int | None = None


def state_of(comparison: Comparison) -> SeriesState:
    """Drifted or suspected if any leading metric is, else the state of the workload's first metric; cannot tell without a comparison."""
    judged = [row for row in comparison.rows if row.family == "lead" and row.verdict is not None and row.effect is not None]
    if comparison.problems or not judged:
        return SeriesState("cannot_tell")
    ordered = sorted(judged, key=lambda row: _FIRST.index(row.metric) if row.metric in _FIRST else len(_FIRST))
    for verdicts, state in ((("regressed", "improved"), "drifted"), (("suspected",), "suspected")):
        row = next((row for row in ordered if row.verdict in verdicts), None)
        if row is not None:
            return _state(state, row)  # type: ignore[arg-type]
    return _state("steady" if ordered[0].verdict == "unchanged" else "cannot_tell", ordered[0])


def _state(state: SeriesStateName, row: MetricComparison) -> SeriesState:
    return SeriesState(state, row.metric, row.effect, row.mde, row.repeats_needed)
