"""The next best experiments of a decision, as rows for page and terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.decisions.experiments import LEAST_GAIN, Experiment
from plumbline.metrics.formatting import format_quantity, format_significant

NO_EXPERIMENT = f"No repeats of one series add {100 * LEAST_GAIN:.1f} points or more to the chance of choosing right."


@dataclass(frozen=True)
class ExperimentRow:
    """`share`: of the largest gain, 0–100."""

    provider: str
    workload: str
    repeats: str
    gain: str
    share: int
    cost: str
    per_usd: str
    unpriced: str


def experiment_rows(experiments: Sequence[Experiment]) -> tuple[ExperimentRow, ...]:
    """In their order."""
    most = max((e.gain for e in experiments), default=1.0)
    return tuple(
        ExperimentRow(
            provider=e.provider,
            workload=e.workload,
            repeats=f"{e.n} → {e.trials}",
            gain=f"+{100 * e.gain:.1f} points",
            share=round(100 * e.gain / most),
            cost="unknown" if e.usd is None else format_quantity(e.usd, "USD"),
            per_usd="–" if e.gain_per_usd is None else f"{format_significant(100 * e.gain_per_usd)} points",
            unpriced=e.unpriced or "",
        )
        for e in experiments
    )
