"""What estimates of a trial's time assume of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.declarations import Provider, TrainingJob
from plumbline.kinds.arithmetic.peak_flops import published_peak


@dataclass(frozen=True)
class Allowance:
    """Seconds: `place_s` from the node to the process, `probes_s` of environment and probes, `start_s` and `compile_s` of a training job,
    `server_s` of a server that compiles its model, `plain_server_s` of another, `drain_s` after each phase, `close_s` for the evidence.
    `rate`: FLOP/s of an accelerator (of a CPU: a core) that is not in the table of peaks. `disk`, `checksum`: bytes/s."""

    place_s: float
    probes_s: float
    start_s: float
    compile_s: float
    server_s: float
    plain_server_s: float
    drain_s: float
    close_s: float
    rate: float
    disk: float
    checksum: float


_GPU = Allowance(45.0, 60.0, 45.0, 90.0, 150.0, 45.0, 5.0, 15.0, 312e12, 2e9, 4e9)
_CPU = Allowance(1.0, 4.0, 3.0, 30.0, 60.0, 3.0, 0.5, 1.0, 7.5e10, 5e8, 1e9)
_UTILIZATION = 0.35


def allowance_of(provider: Provider) -> Allowance:
    return _CPU if provider.accelerator.kind == "cpu" else _GPU


def process_rate(workload: TrainingJob, precision: str, provider: Provider, allow: Allowance) -> float:
    """FLOP/s of one process."""
    has = provider.accelerator
    device = " ".join((has.product or "").split("-"))
    peak = published_peak(device, precision) or published_peak(device, "bf16") or allow.rate
    # Processes on a CPU share the cores that the workload needs; a GPU belongs to one process.
    return _UTILIZATION * (peak * workload.needs.count / workload.parallelism.processes if has.kind == "cpu" else peak)
