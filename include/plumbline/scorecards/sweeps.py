"""Whether what was measured can tell what inference costs at the highest rate that keeps the SLO, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.prices.cost import SUSTAINED, sustained
from plumbline.scorecards.inputs import TrialNumbers


def no_sweep(metric: str, trials: Sequence[TrialNumbers]) -> bool:
    """Whether a cost at the highest rate that keeps the SLO cannot be known, since no usable trial of this workload searched that rate."""
    usable = [t for t in trials if t.usable]
    return bool(usable) and sustained(metric) and not any(t.number(SUSTAINED, "value", "sweep") for t in usable)


def cost_gap(metric: str, trials: Sequence[TrialNumbers]) -> str:
    """Why usable trials of one workload and provider lack a cost at the highest rate that keeps the SLO; empty where that is not the reason."""
    if not sustained(metric):
        return ""
    if no_sweep(metric, trials):
        return f"{metric} cannot be known: its trials have no sweep"
    searched = [n for t in trials if t.usable and (n := t.number(SUSTAINED, "value", "sweep")) is not None]
    if searched and all(n.value is None for n in searched):
        return f"{metric} is not known: the sweep found no highest rate that keeps the SLO"
    return ""
