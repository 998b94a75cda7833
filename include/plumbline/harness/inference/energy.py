"""What a phase's answers cost in energy, as far as the GPUs' own meters tell it."""

from __future__ import annotations

from plumbline.harness.gpu_watch import GpuWatch
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.results import MetricRow, row


def energy_rows(log: RequestLog, gpus: GpuWatch) -> list[MetricRow]:
    """`gpu_power` (W, of all GPUs together, the phase's mean) and `energy_per_output_token` (J): the phase's energy, idle time and failed
    requests included, over every token that came. None of both without a GPU that can be seen; of a phase without a token no second one."""
    joules, watts = gpus.energy_j, gpus.power_w
    if joules is None or watts is None:
        return []
    phase, tokens = log.load.name, int(log.arrived.sum())
    rows = [row("gpu_power", watts, gpus.samples, phase=phase, statistic="mean")]
    return [*rows, row("energy_per_output_token", joules / tokens, tokens, phase=phase)] if tokens else rows
