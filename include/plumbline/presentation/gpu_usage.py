"""GPU utilisation beside what the GPUs achieved in that time: alone it is no performance.

The driver's figure is the share of its window in which any kernel ran, however small. It is shown only with power and achieved FLOP/s or bytes/s,
and hidden without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.models import Llama
from plumbline.metrics import PHASES
from plumbline.metrics.formatting import common_scale, format_name, format_percent, join_words
from plumbline.results import MetricRow, ResultDocument, Telemetry

_UTILISATION = re.compile(r"(?:server_)?gpu\d*_utilization")
_FLOPS = (("model_flops", "median", "model_flops_utilization"), ("prefill_flops", "value", "prefill_flops_utilization"))


@dataclass(frozen=True)
class AchievedRate:
    """`value` in SI units, None if not measured; `beside`: its share of the probed limit."""

    value: float | None
    text: str
    beside: str = ""


@dataclass(frozen=True)
class GpuUsage:
    """The GPUs of one phase. `utilisation`: mean over the GPUs, None where it was not sampled or is withheld; then `why` says which.

    `missing`: of FLOP/s, bandwidth and power, what was not measured.
    """

    phase: str
    gpus: int
    utilisation: AchievedRate
    flops: AchievedRate
    bandwidth: AchievedRate
    power: AchievedRate
    missing: tuple[str, ...]
    why: str = ""


def is_gpu_utilisation(signal: str) -> bool:
    """Whether a telemetry signal is a GPU's utilisation, which no table shows by itself."""
    return _UTILISATION.fullmatch(signal) is not None


def gpu_usages(document: ResultDocument) -> tuple[GpuUsage, ...]:
    """A row for each phase in which GPUs were sampled, in the phases' order; empty where no GPU was seen."""
    phases = {item.phase for item in document.telemetry if item.signal.startswith("gpu") or is_gpu_utilisation(item.signal)}
    phases -= {
        item.phase for item in document.telemetry if item.signal == "gpu_watch_overhead" and not _gpus(document.telemetry, item.phase)
    }
    return tuple(_usage(document, phase) for phase in PHASES if phase in phases)


def _usage(document: ResultDocument, phase: str) -> GpuUsage:
    sampled = [item for item in document.telemetry if item.phase == phase and is_gpu_utilisation(item.signal)]
    # The server samples the same GPUs as the harness.
    busy = [item.mean for item in sampled if item.signal.startswith("gpu")] or [item.mean for item in sampled]
    flops, bandwidth, power = _flops(document, phase), _bandwidth(document, phase), _power(document, phase)
    rates = (("achieved FLOP/s", flops), ("memory bandwidth", bandwidth), ("power", power))
    missing = tuple(name for name, each in rates if each.value is None)
    utilisation, why = AchievedRate(None, "–"), ""
    if not busy:
        why = "utilisation not sampled"
    elif power.value is None or (flops.value is None and bandwidth.value is None):
        why = f"utilisation hidden without {join_words(missing)}: by itself it does not show performance"
    else:
        mean = sum(busy) / len(busy)
        utilisation = AchievedRate(mean, format_percent(mean), "of the time a kernel ran")
    return GpuUsage(format_name(phase), _gpus(document.telemetry, phase), utilisation, flops, bandwidth, power, missing, why)


def _gpus(telemetry: Sequence[Telemetry], phase: str) -> int:
    return len({m[0] for item in telemetry if item.phase == phase and (m := re.match(r"gpu\d+(?=_)", item.signal))})


def _flops(document: ResultDocument, phase: str) -> AchievedRate:
    for name, statistic, share_name in _FLOPS:
        found = _row(document, name, statistic, phase)
        if found is not None and found.value is not None:
            share = _row(document, share_name, statistic, phase)
            beside = "" if share is None or share.value is None else f"{format_percent(share.value)} of the probed matmul rate"
            in_prefill = " in prefill" if name == "prefill_flops" else ""
            return AchievedRate(found.value, common_scale("FLOP/s", [found.value]).text(found.value) + in_prefill, beside)
    return AchievedRate(None, "not measured")


def _bandwidth(document: ResultDocument, phase: str) -> AchievedRate:
    """What decoding read a second: the measured share of the probed bandwidth, times that of all the GPUs that hold the model."""
    share, probed = _row(document, "model_bandwidth_utilization", "value", phase), _row(document, "memory_bandwidth", "max", "environment")
    if share is None or share.value is None or probed is None or probed.value is None:
        return AchievedRate(None, "not measured")
    workload = document.trial.workload
    split = workload.accelerators if isinstance(workload, InferenceWorkload) and isinstance(workload.model, Llama) else 1
    if isinstance(workload, InferenceWorkload):  # each replica reads its own weights
        split *= workload.replicas_on(document.trial.provider.accelerator.count)
    value = share.value * probed.value * split
    return AchievedRate(
        value, f"{common_scale('bytes/s', [value]).text(value)} in decoding", f"{format_percent(share.value)} of the probed bandwidth"
    )


def _power(document: ResultDocument, phase: str) -> AchievedRate:
    """All GPUs together: by their energy counters, else by the samples of each. Those of a job on several nodes are node 0's alone."""
    row = _row(document, "gpu_power", "mean", phase)
    if row is not None and row.value is not None:
        return AchievedRate(row.value, common_scale("W", [row.value]).text(row.value))
    if row is not None:
        return AchievedRate(None, "not measured", row.reason or "")
    sampled = [item.mean for item in document.telemetry if item.phase == phase and re.fullmatch(r"gpu\d+_power", item.signal)]
    if not sampled or len(sampled) < _gpus(document.telemetry, phase):
        return AchievedRate(None, "not measured")
    return AchievedRate(sum(sampled), common_scale("W", [sum(sampled)]).text(sum(sampled)))


def _row(document: ResultDocument, metric: str, statistic: str, phase: str) -> MetricRow | None:
    return next((r for r in document.metrics if (r.metric, r.statistic, r.phase) == (metric, statistic, phase)), None)
