"""A team's training script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from plumbline.declarations import Declarations, Provider, ScriptWorkload, installation
from plumbline.declarations.workloads.workload import Primary
from plumbline.kinds.arithmetic.allowance import Allowance, process_rate
from plumbline.kinds.arithmetic.flops import script_flops_per_step
from plumbline.kinds.base import Simulated, WorkloadKind, register
from plumbline.kinds.simulation import steps
from plumbline.kinds.simulation.draw import Hardware, TrialDraw

_FETCH_RATE = 2e8
"""Bytes/s at which its data is fetched, until trials have measured it."""


@register
class Script(WorkloadKind[ScriptWorkload]):
    declaration = ScriptWorkload
    wire_kind = "training"
    task = "script"
    verb = "runs"
    noun = "script"
    plural = "training scripts"
    measured_by = "plumbline.harness.training.job.trial"

    def primary(self, workload: ScriptWorkload) -> Primary:
        counted = f"{workload.work_per_step[0]}_per_second_per_device"
        return Primary.model_validate(counted if workload.counts_work else "median step_time in steady")

    def required(self, workload: ScriptWorkload) -> tuple[str, ...]:
        """Only what its log holds is known."""
        recovered = ("recovery.restart_penalty.value",) if workload.fault else ()
        known = {
            f"steady.{workload.work_per_step[0]}_per_second.median": workload.counts_work,
            "steady.final_loss.value": "loss" in (workload.task.reported or ()),
        }
        return ("steady.step_time.median", *(name for name, is_known in known.items() if is_known), *recovered)

    def trial_s(self, workload: ScriptWorkload, provider: Provider, allow: Allowance) -> float | None:
        flops, fault = script_flops_per_step(workload), workload.fault
        if flops is None:
            return None
        starts, total = 1, workload.steps.total
        if fault is not None:  # in a run of its own
            starts, total = starts + 1 + fault.times, total + fault.at_step + fault.times * (workload.checkpoint_every or 0)
        step = flops / workload.parallelism.world / process_rate(workload, workload.precision or "bf16", provider, allow)
        fetched = data.size or 0.0 if (data := workload.task.data) is not None and data.read == "once" else 0.0
        return fetched / _FETCH_RATE + starts * allow.start_s + total * step

    def simulate(self, workload: ScriptWorkload, has: Hardware, draw: TrialDraw) -> Simulated:
        rows = steps.script_rows(workload, has, draw)
        return Simulated(rows, steps.took_s(workload, rows))

    def gaps(self, workload: ScriptWorkload, declared: Declarations) -> Iterator[str]:
        name = workload.name
        if workload.checkpoint_every is None:
            yield f"{name} declares no task.checkpoints: neither their cost nor a restart from them is measured; expected their folder and every"
        if not workload.counts_work and workload.task.reported is not None:
            yield (
                f"{name} has no token count: neither a rate nor a cost of tokens is measured; expected work, such as {{tokens: 8192}}, or a "
                "report with tokens"
            )
        own, data = workload.task.folder, workload.task.data
        here = [p.name for p in declared.enabled_providers() if p.launcher.kind == "local" and workload in declared.workloads_for(p)]
        if own is not None and here and not Path(own).is_dir():
            yield f"{name} starts in {own}, which this machine lacks, so {', '.join(here)} cannot run it; expected `providers` with that image"
        if data is None or data.read == "stream":
            return
        if data.size is None:
            yield f"{name} declares no task.data.size, so neither its scratch disk nor the time of its fetch is planned; expected such as 12GB"
        elif here and (why := installation.insufficient_space(installation.installation_paths().work, data.size)) is not None:
            yield f"{name} fetches its data on {', '.join(here)}: {why}"
