"""Trials, node hours and cost of a provider's monthly rerun: by the times that trials took, else estimated from declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from plumbline.analysis.cost.budget import BudgetUse, budget_use, expected_held_s, sum_uses
from plumbline.analysis.cost.unit_costs import HOUR_S, sustained
from plumbline.analysis.prices.book import quote
from plumbline.declarations import (
    AnyWorkload,
    ContainerWorkload,
    Declarations,
    InferenceWorkload,
    Provider,
    ScriptWorkload,
    TrainingJob,
    TrainingWorkload,
    installation,
)
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.engines import PATH_MEASURED, engine
from plumbline.declarations.workloads.load import LoadPhaseSpec, SearchPhaseSpec, max_phase_seconds
from plumbline.harness.training.flops import flops_per_step, script_flops_per_step
from plumbline.harness.training.peak_flops import published_peak
from plumbline.harness.training.worker_protocol import VERIFIED_LOADS
from plumbline.launch.plan import declared_slots


@dataclass(frozen=True)
class _Allowance:
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


_GPU = _Allowance(45.0, 60.0, 45.0, 90.0, 150.0, 45.0, 5.0, 15.0, 312e12, 2e9, 4e9)
_CPU = _Allowance(1.0, 4.0, 3.0, 30.0, 60.0, 3.0, 0.5, 1.0, 7.5e10, 5e8, 1e9)
_UTILIZATION, _RECOMPUTED = 0.35, 1.3
_PATH_S = 12.0
"""Of a trial's server without its model, which has nothing to load, and the load on it."""
_CROSS_CHECK_S = 10.0
"""Of a trial's check by tritonclient, at most."""
_SIMULATED_LIMIT_S = 3600.0
"""Counted for a simulated trial without times; such trials have no limit."""
_BYTES_PER_PARAMETER, _HUB_PARAMETERS = 12.0, 110e6
_FETCH_RATE = 2e8
"""Bytes/s at which a script's data is fetched, until trials have measured it."""


@dataclass(frozen=True)
class WorkloadEstimate:
    """A workload of a provider's month. `trial_s`: seconds that one trial holds each of its `nodes`: of `measured` trials, 0 if estimated."""

    workload: str
    kind: str
    version: int
    slots: tuple[str, ...]
    per_slot: int
    nodes: int
    trial_s: float
    measured: int
    use: BudgetUse

    @property
    def trials(self) -> int:
        return len(self.slots) * self.per_slot

    @property
    def node_hours(self) -> float:
        return self.trials * self.nodes * self.trial_s / HOUR_S


@dataclass(frozen=True)
class MonthlyEstimate:
    """A provider's monthly rerun. `price`: the basis of what is paid, or why that is not known."""

    provider: str
    enabled: bool
    scheduled: tuple[WorkloadEstimate, ...]
    price: str

    @property
    def trials(self) -> int:
        return sum(each.trials for each in self.scheduled)

    @property
    def node_hours(self) -> float:
        return sum(each.node_hours for each in self.scheduled)

    @property
    def use(self) -> BudgetUse:
        return sum_uses(each.use for each in self.scheduled)

    @property
    def times(self) -> str:
        """Where the trials' times are from, in words."""
        measured = sum(each.measured > 0 for each in self.scheduled)
        if not 0 < measured < len(self.scheduled):
            return "measured" if measured else "estimated"
        return f"measured of {measured} of {len(self.scheduled)} workloads"


def estimate_month(
    declared: Declarations, provider: Provider, on: date, durations_s: Mapping[str, Sequence[float]] | None = None
) -> MonthlyEstimate:
    """The provider's monthly rerun at the on-demand price of a day; of a disabled provider, as if it were enabled.

    `durations_s`: by workload, seconds over all nodes of the last trials.
    """
    lasted = durations_s or {}
    scheduled = tuple(
        estimate_workload(provider, w, on, lasted.get(w.name, ())) for w in declared.monthly_workloads(provider, month=on.month)
    )
    quoted = quote(provider, on)
    return MonthlyEstimate(provider.name, provider.enabled, scheduled, str(quoted.basis or quoted.reason))


def estimate_workload(provider: Provider, workload: AnyWorkload, on: date, durations_s: Sequence[float] = ()) -> WorkloadEstimate:
    """One workload of the month; see `estimate_month`."""
    nodes = workload.nodes
    held_s = expected_held_s(durations_s, min(nodes * estimate_trial_s(workload, provider), limit_s(provider, nodes)))
    slots, repeats = declared_slots(provider, workload), workload.repeats.per_slot
    use = budget_use(provider, held_s, on, workload.gpus).times(len(slots) * repeats)
    return WorkloadEstimate(workload.name, workload.kind, workload.version, slots, repeats, nodes, held_s / nodes, len(durations_s), use)


def limit_s(provider: Provider, nodes: int) -> float:
    """The most seconds, over all nodes, that a trial can hold the provider."""
    return nodes * (_SIMULATED_LIMIT_S if provider.simulated else provider.launcher.trial_limit_s)


def estimate_trial_s(workload: AnyWorkload, provider: Provider) -> float:
    """Seconds that one trial holds each of its nodes, under the assumptions of this module."""
    allow = _CPU if provider.accelerator.kind == "cpu" else _GPU
    if isinstance(workload, InferenceWorkload):
        own = _inference_s(workload, allow)
    elif isinstance(workload, TrainingWorkload):
        own = _training_s(workload, provider, allow)
    elif isinstance(workload, ContainerWorkload) and workload.task.expected is not None:
        own = workload.task.expected
    elif isinstance(workload, ContainerWorkload) or (found := _script_s(workload, provider, allow)) is None:
        return limit_s(provider, 1)
    else:
        own = found
    return allow.place_s + allow.probes_s + own + allow.close_s


def _training_s(workload: TrainingWorkload, provider: Provider, allow: _Allowance) -> float:
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


def _step_s(workload: TrainingWorkload, provider: Provider, allow: _Allowance) -> float:
    flops = (flops_per_step(workload) or 6.0 * _HUB_PARAMETERS * workload.tokens_per_step) / workload.parallelism.tensor
    rate = _process_rate(workload, workload.precision, provider, allow)
    return flops / rate * (_RECOMPUTED if workload.activation_checkpointing else 1.0)


def _process_rate(workload: TrainingJob, precision: str, provider: Provider, allow: _Allowance) -> float:
    """FLOP/s of one process."""
    has = provider.accelerator
    device = " ".join((has.product or "").split("-"))
    peak = published_peak(device, precision) or published_peak(device, "bf16") or allow.rate
    # Processes on a CPU share the cores that the workload needs; a GPU belongs to one process.
    return _UTILIZATION * (peak * workload.needs.count / workload.parallelism.processes if has.kind == "cpu" else peak)


def _script_s(workload: ScriptWorkload, provider: Provider, allow: _Allowance) -> float | None:
    """None if nothing says how long a step takes."""
    flops, fault = script_flops_per_step(workload), workload.fault
    if flops is None:
        return None
    starts, steps = 1, workload.steps.total
    if fault is not None:  # in a run of its own
        starts, steps = starts + 1 + fault.times, steps + fault.at_step + fault.times * (workload.checkpoint_every or 0)
    step = flops / workload.parallelism.world / _process_rate(workload, workload.precision or "bf16", provider, allow)
    fetched = data.size or 0.0 if (data := workload.task.data) is not None and data.read == "once" else 0.0
    return fetched / _FETCH_RATE + starts * allow.start_s + steps * step


def _inference_s(workload: InferenceWorkload, allow: _Allowance) -> float:
    backend = workload.server.backend
    server = 0.0 if backend == "external" else allow.server_s if engine(backend).starts_slowly else allow.plain_server_s
    starts = 2 if workload.quality is not None else 1  # one more for the reference
    capacity = any(isinstance(phase, SearchPhaseSpec) for phase in workload.phases)
    checks = _PATH_S if capacity and backend in PATH_MEASURED and workload.server.triton_backend is None else 0.0
    checks += _CROSS_CHECK_S if engine(backend).triton_backend else 0.0
    return server * starts + checks + sum(max_phase_seconds(phase) + allow.drain_s for phase in workload.phases)


def measurement_gaps(declared: Declarations) -> tuple[str, ...]:
    """Gaps of the monthly rerun, one sentence each: enabled providers without monthly workloads, workloads skipped for an engine or scratch
    disk, trials longer than their time limit, workloads of teams that no provider runs, missing sweeps, qualities of random weights."""
    enabled = declared.enabled_providers()
    gaps = [
        f"{p.name} is enabled but has no monthly workload: {_why_unmeasured(declared, p)}"
        for p in enabled
        if not declared.monthly_workloads(p)
    ]
    gaps += [f"{p.name} does not measure {w.name} monthly: {why}" for p in enabled for w, why in declared.left_out(p)]
    gaps += [why for p in enabled for w in declared.monthly_workloads(p) if (why := _beyond_limit(p, w)) is not None]
    measured = {w.name for p in enabled for w in declared.monthly_workloads(p)}
    teams: dict[str, list[str]] = {}
    for name, team in sorted(declared.teams.items()):
        for preference in (*team.preferences("training"), *team.preferences("inference")):
            for workload in preference.workloads:
                if workload not in measured and name not in teams.setdefault(workload, []):
                    teams[workload].append(name)
    for workload, names in sorted(teams.items()):
        fits = [p.name for p in enabled if workload in {w.name for w in declared.workloads_for(p)}]
        why = f"on {', '.join(fits)} it is on demand only" if fits else "it fits no enabled provider"
        gaps.append(f"{_teams_decide(names)} by {workload}, which no enabled provider measures monthly: {why}")
    return (*gaps, *_missing_sweeps(declared), *_unchecked_qualities(declared), *_script_gaps(declared))


def _script_gaps(declared: Declarations) -> Iterator[str]:
    """What is not measured of scripts, for want of a declaration."""
    for name, workload in sorted(declared.workloads.items()):
        if not isinstance(workload, ScriptWorkload):
            continue
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
            continue
        if data.size is None:
            yield f"{name} declares no task.data.size, so neither its scratch disk nor the time of its fetch is planned; expected such as 12GB"
        elif here and (why := installation.insufficient_space(installation.installation_paths().work, data.size)) is not None:
            yield f"{name} fetches its data on {', '.join(here)}: {why}"


def _unchecked_qualities(declared: Declarations) -> Iterator[str]:
    for name, workload in sorted(declared.workloads.items()):
        if isinstance(workload, InferenceWorkload) and workload.quality is not None and not isinstance(workload.model, Checkpoint):
            yield f"{name} declares quality of random weights, which no trial checks: remove it with a new version, or serve a checkpoint"


def _beyond_limit(provider: Provider, workload: AnyWorkload) -> str | None:
    needed, limit = estimate_trial_s(workload, provider), provider.launcher.trial_limit_s
    if provider.simulated or needed <= limit:
        return None
    return (
        f"{provider.name} stops {workload.name} before its end: launcher.timeout is {limit:.0f}s and a trial takes {needed:.0f}s by estimate; "
        f"expected launcher.timeout above that, or fewer steps"
    )


def _missing_sweeps(declared: Declarations) -> list[str]:
    """Costs without a sweep: inference is costed at the highest rate that meets the SLO, which only a sweep finds."""
    gaps = []
    for name, team in sorted(declared.teams.items()):
        for preference in team.preferences("inference"):
            costs = ", ".join(metric for metric in preference.weights if sustained(metric))
            for workload in (declared.workloads[each] for each in preference.workloads if costs):
                if not isinstance(workload, InferenceWorkload) or any(phase.name == "sweep" for phase in workload.phases):
                    continue
                closed = any(isinstance(phase, LoadPhaseSpec) and phase.arrivals.closed is not None for phase in workload.phases)
                loop = "runs a closed loop and " if closed else ""
                gaps.append(
                    f"team {name} weighs {costs} by {workload.name}, which {loop}declares no sweep, so no decision is possible; expected a "
                    "phase such as {name: sweep, search: {goodput: 99%, between: [1/s, 64/s]}}, or no cost among the team's weights"
                )
    return gaps


def _why_unmeasured(declared: Declarations, provider: Provider) -> str:
    fitting = [w.name for w in declared.workloads_for(provider)]
    if not fitting:
        return "no declared workload fits"
    return f"all fitting workloads are on demand only; name some under `workloads` in its declaration: {', '.join(fitting)}"


def _teams_decide(teams: Sequence[str]) -> str:
    return f"team{'s' if len(teams) > 1 else ''} {', '.join(teams)} decide{'' if len(teams) > 1 else 's'}"
