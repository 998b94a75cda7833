"""Our own training loop."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.declarations import Provider, TrainingWorkload
from plumbline.declarations.references import WorkloadShape
from plumbline.declarations.workloads.workload import Primary
from plumbline.kinds.arithmetic.allowance import Allowance, process_rate
from plumbline.kinds.arithmetic.flops import flops_per_step
from plumbline.kinds.base import Simulated, WorkloadKind, register
from plumbline.kinds.simulation import steps
from plumbline.kinds.simulation.draw import Hardware, TrialDraw

_RECOMPUTED = 1.3
VERIFIED_LOADS = 3
"""How often a trial loads its newest checkpoint after the last step: the harness orders it, and an estimate counts it."""
_BYTES_PER_PARAMETER, _HUB_PARAMETERS = 12.0, 110e6


@register
class Training(WorkloadKind[TrainingWorkload]):
    declaration = TrainingWorkload
    wire_kind = "training"
    verb = "trains"
    plural = "trainings"
    measured_by = "plumbline.harness.training.job.trial"
    names_model = True
    compares_nodes = True

    def primary(self, workload: TrainingWorkload) -> Primary:
        """What one device trains a second."""
        return Primary.model_validate(workload.task.rate)

    def required(self, workload: TrainingWorkload) -> tuple[str, ...]:
        recovered = ("recovery.restart_penalty.value",) if workload.fault else ()
        rate = f"steady.{workload.work_per_step[0]}_per_second.median"
        return ("steady.step_time.median", rate, "steady.final_loss.value", *recovered)

    def trial_s(self, workload: TrainingWorkload, provider: Provider, allow: Allowance) -> float:
        step, fault, check = _step_s(workload, provider, allow), workload.fault, workload.checkpoint
        start = allow.start_s + (allow.compile_s if workload.compile else 0.0)
        parameters = float(getattr(workload.model, "matmul_parameters", _HUB_PARAMETERS))
        size = parameters * _BYTES_PER_PARAMETER / workload.nodes
        stored, summed = size / allow.disk, size / allow.checksum
        saves = workload.steps.total // check.every if check.mode == "sync" else 1
        seconds = start + workload.steps.total * step + saves * (stored + summed) + VERIFIED_LOADS * stored + summed
        if fault is not None:
            seconds += fault.times * (start + stored + summed + (fault.at_step % check.every + 1) * step)
        return seconds

    def simulate(self, workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> Simulated:
        rows = steps.rows(workload, has, draw)
        return Simulated(rows, steps.took_s(workload, rows), stages=steps.stages(workload, has, draw))

    def differences(self, workload: TrainingWorkload, published: WorkloadShape) -> Iterator[str]:
        if workload.task.kind != "language_model":
            yield f"pretraining, here {workload.task.kind}"
        if published.sequence is not None and published.sequence != workload.batch.sequence:
            yield f"sequences of {published.sequence} tokens, here {workload.batch.sequence}"
        step = workload.samples_per_step * workload.parallelism.replicas
        if published.batch is not None and published.batch != step:
            yield f"{published.batch} sequences a step, here {step}"


def _step_s(workload: TrainingWorkload, provider: Provider, allow: Allowance) -> float:
    flops = (flops_per_step(workload) or 6.0 * _HUB_PARAMETERS * workload.tokens_per_step) / workload.parallelism.tensor
    rate = process_rate(workload, workload.precision, provider, allow)
    return flops / rate * (_RECOMPUTED if workload.activation_checkpointing else 1.0)
