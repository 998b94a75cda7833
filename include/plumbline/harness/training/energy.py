"""What training costs in energy, as far as the GPUs' own meters tell it."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.results import MetricRow, row


def energy_rows(metrics: Sequence[MetricRow], power: Sequence[MetricRow]) -> list[MetricRow]:
    """`gpu_power` as measured (W, all nodes' GPUs together, the steady phase's mean) and `energy_per_trained_token` (J): that power over the
    steady `tokens_per_second`. None of both without meters, no second one for what is not counted in tokens. Where a node's power is missing,
    both are absent with the reason."""
    steady = next((item for item in power if item.metric == "gpu_power" and item.phase == "steady"), None)
    speed = next((item for item in metrics if (item.metric, item.phase) == ("tokens_per_second", "steady")), None)
    if steady is None or speed is None or not speed.value:
        return list(power)
    energy = None if steady.value is None else steady.value / speed.value
    return [*power, row("energy_per_trained_token", energy, steady.n, phase="steady", statistic="mean", reason=steady.reason)]
