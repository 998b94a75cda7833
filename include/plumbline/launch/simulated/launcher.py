"""Launcher for simulated providers: no process, but the same documents, records and probes, all marked simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal, get_args

from plumbline.declarations import (
    Declarations,
    Provider,
    Trial,
)
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.declarations.providers.simulation import DriverChange, PerformanceEvent, Probe, SimulatedLauncher
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.harness.measurement import TrialJudgement, verdict
from plumbline.kinds import kind_of
from plumbline.kinds.simulation.draw import TrialDraw, UnknownHardware, hardware_of, node_name, probe_rows
from plumbline.launch.failures import EXCEPTIONS, BadDeclaration, InMaintenance
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, Launcher, OnProgress, ProbeSkipped, ProviderFacts
from plumbline.launch.stores import next_attempt
from plumbline.results import (
    Environment,
    Event,
    FailureClass,
    GpuCounter,
    LaunchRecord,
    Limit,
    LimitName,
    MetricRow,
    ReplicaCount,
    Reproducibility,
    ResultDocument,
    ResultStore,
    Scalar,
    metric_row,
)
from plumbline.results.launch_record import NODE_READY, STEP_UP
from plumbline.results.probe_document import ProbeDocument

_GIB = 2**30
_HOST_FACTS: dict[str, Scalar] = {
    "cpu.model": "Simulated CPU",
    "host.virtualization": "none",
    "os.kernel": "6.8.0-60-generic",
    "os.name": "Ubuntu 24.04 LTS",
    "python.version": "3.12.3",
    "torch.version": "2.13.0",
}
_GPU_FACTS: dict[str, Scalar] = {
    "cpu.logical": 128,
    "cpu.usable": 112,
    "memory.total_bytes": 2048 * _GIB,
    "cuda.version": "12.8",
    "cudnn.version": "9.10.2",
    "driver.version": "570.86.15",
    "nccl.version": "2.26.2",
    "container.kind": "kubernetes",
    "kubernetes.version": "v1.32.4",
}


def simulated_environment(draw: TrialDraw) -> Environment:
    """Facts of the trial: the accelerator's usual ones, overridden by declared ones and by driver changes."""
    provider = draw.trial.provider
    launcher = provider.launcher_as(SimulatedLauncher)
    return Environment.of({**_usual_facts(provider), "host.node": draw.node_name(draw.node), **launcher.environment, **draw.facts()})


def _gpu_health(draw: TrialDraw) -> tuple[GpuCounter, ...]:
    """Counters of the node's first GPU that its declared faults name; a sound GPU has no remapped row."""
    if draw.trial.provider.accelerator.kind == "cpu":
        return ()
    counts = {"row_remap_failure": 0, "row_remap_pending": 0} | {name: n for fault in draw.faults for name, n in fault.counters.items()}
    return tuple(GpuCounter(gpu=0, counter=name, before=n, after=n) for name, n in sorted(counts.items()))


def _gpu_serials(draw: TrialDraw) -> tuple[str, ...]:
    has = draw.trial.provider.accelerator
    return () if has.kind == "cpu" else tuple(f"SIM{draw.node:05d}{gpu:02d}" for gpu in range(has.count))


def simulated_facts(provider: Provider, at: datetime) -> dict[str, Scalar]:
    """Facts of every node on a day, including changes declared for some workloads only."""
    launcher = provider.launcher_as(SimulatedLauncher)
    facts = {**_usual_facts(provider), **launcher.environment}
    for event in launcher.drift:
        if isinstance(event, DriverChange) and event.concerns((event.workloads or ("",))[0], at):
            facts |= event.facts
    return facts


def _usual_facts(provider: Provider) -> dict[str, Scalar]:
    has = provider.accelerator
    facts: dict[str, Scalar] = {**_HOST_FACTS, "host.instance_type": provider.instance_type, "gpu.count": has.count}
    if has.kind == "cpu":
        return facts | {"cpu.logical": has.count, "cpu.usable": has.count, "memory.total_bytes": 4 * has.count * _GIB, "gpu.count": 0}
    return facts | _GPU_FACTS | {"gpu.vendor": has.kind} | {f"gpu.{i}.product": has.product for i in range(has.count)}


MODEL_VERSION = "simulated-3"
"""`harness_version` of simulated documents; raised when the model gives other numbers for the same declaration."""
TIME_SCALE = 1000.0
"""Simulated seconds of the trial in one second of the wall clock, so that no event lies in the future."""
_PROBING_S = 20.0


@dataclass(frozen=True)
class Clock:
    """The trial's times: monotonic seconds are the simulated machine's, the wall clock begins when the trial was planned."""

    begun: datetime

    def event(self, name: str, at_s: float, clock: Literal["harness", "launcher"] = "harness") -> Event:
        """A moment `at_s` simulated seconds after the request."""
        return Event(name=name, utc=self.begun + timedelta(seconds=at_s / TIME_SCALE), monotonic_s=round(at_s, 3), clock=clock)


def lead_time_s(draw: TrialDraw) -> float:
    """Seconds from the request to the harness's first sign of life."""
    return hardware_of(draw.trial.provider).lead_s * draw.slowness("start_up")


def simulate(trial: Trial) -> ResultDocument:
    """The document of a trial that does not fail; deterministic. ValueError if its provider is not simulated, UnknownHardware (a ValueError) if
    the provider's accelerator is not known and has no declared level."""
    draw = TrialDraw(trial)
    workload, provider = trial.workload, trial.provider
    has = hardware_of(provider)
    ranks = min(workload.devices_on(provider.accelerator.count), has.count)
    probed = probe_rows(draw, has, ranks)
    found = kind_of(workload).simulate(workload, has, draw)
    metrics = [*probed, *found.metrics]
    clock, begin = Clock(trial.planned_at), lead_time_s(draw)
    hashes = {"spec": trial.spec_hash, **({"schedule": trial.schedule_hash} if trial.schedule_hash else {})}
    return ResultDocument.sealed(
        trial=trial,
        harness_version=MODEL_VERSION,
        environment=simulated_environment(draw),
        reproducibility=Reproducibility(
            seeds={"simulation": draw.declared.seed}, hashes=hashes, replay_command=f"plumbline replay {trial.trial_id}"
        ),
        timeline=(
            clock.event("harness_started", begin),
            clock.event("environment_probed", begin + 1.0),
            clock.event("measurement_started", begin + _PROBING_S),
            *(clock.event(name, begin + _PROBING_S + after) for name, after in found.moments),
            clock.event("measurement_finished", begin + _PROBING_S + found.took_s),
        ),
        validity=verdict(TrialJudgement("degraded", reason) for reason in found.reasons),
        curves=tuple(found.curves),
        limits=tuple(_limits(trial, metrics)),
        metrics=tuple(metrics),
        stages=tuple(found.stages),
        gpu_health=_gpu_health(draw),
        gpu_serials=_gpu_serials(draw),
        simulated=True,
    )


def _limits(trial: Trial, metrics: Sequence[MetricRow]) -> Iterator[Limit]:
    """Simulated hardware is what gives out: nothing else is simulated."""
    for row in metrics:
        if row.metric == "highest_sustained_rate" and row.value is not None:
            hardware: LimitName = "cores" if trial.provider.accelerator.kind == "cpu" else "accelerator"
            yield Limit.shown(row.phase, hardware, "simulated: the hardware's capacity is what the rate is computed from")


_NEVER_STARTED = ("quota_exceeded", "insufficient_capacity", "image_error", "launch_timeout")


class SimulationLauncher(Launcher):
    """Writes the document and the record that a trial would leave."""

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        nodes = provider.launcher_as(SimulatedLauncher).nodes
        return ProviderFacts(
            ({k: v for k, v in sorted(simulated_facts(provider, at).items()) if v is not None},),
            {},
            names=tuple(node_name(provider, node) for node in range(nodes)),
        )

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return simulate_probe(provider, now)

    def check_uptime(self, declared: Declarations, provider: Provider, now: datetime) -> float:
        return _simulate_check(provider, "uptime", now)

    def ask_capacity(self, declared: Declarations, provider: Provider, now: datetime) -> float | None:
        asked, seconds = provider.watch.capacity, _simulate_check(provider, "capacity", now)
        return None if asked is not None and asked.dry_run else seconds

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """See Launcher.launch. ValueError for a provider that is not simulated."""
        trial = next_attempt(trial, store)
        draw = TrialDraw(trial)
        store.put_trial(trial)
        failure, detail, document = self._outcome(trial, draw, store)
        record = LaunchRecord(
            launcher="simulated",
            events=_events(trial, draw, failure, document),
            exit_code=None if failure in _NEVER_STARTED else 3 if failure else 0,
            failure_class=failure,
            failure_detail=detail,
            node={"host.name": draw.node_name(draw.node), "simulated": True},
        )
        store.put_launch(trial, record)
        if on_progress is not None:
            on_progress(ProgressLine(trial.trial_id, "finished", 1.0, "simulated"))
        return record

    def _outcome(self, trial: Trial, draw: TrialDraw, store: ResultStore) -> tuple[FailureClass | None, str | None, ResultDocument | None]:
        failure = draw.ends_as()
        if failure is not None:
            return failure, f"simulated: attempt {trial.attempt} ended as {failure}", None  # type: ignore[return-value]
        try:
            document = simulate(trial)
        except UnknownHardware as error:
            return "bad_declaration", str(error), None
        store.put_document(document)
        if (seen := kind_of(trial.workload).simulated_replicas(trial.workload, hardware_of(trial.provider), draw)) is not None:
            up = next(event.utc.timestamp() for event in document.timeline if event.name == STEP_UP)
            store.put_replicas(trial, [ReplicaCount(at=up + after, ready=ready, wanted=ready) for after, ready in seen])
        return None, None, document


def _events(trial: Trial, draw: TrialDraw, failure: str | None, document: ResultDocument | None) -> tuple[Event, ...]:
    """The launcher's record. One second passes from the harness's last sign of life to its end."""
    clock = Clock(trial.planned_at)
    requested = clock.event("requested", 0.0, "launcher")
    if failure in (*_NEVER_STARTED, "bad_declaration"):
        return requested, clock.event("finished", 1.0, "launcher")
    ready = lead_time_s(draw)
    last = max((e.monotonic_s or ready for e in document.timeline), default=ready) if document is not None else ready
    nodes = trial.workload.nodes
    # The nodes of a gang come one after the other.
    came = [clock.event(NODE_READY, ready * (1 + k) / nodes, "launcher") for k in range(nodes if nodes > 1 else 0)]
    return requested, *came, clock.event("harness_ready", ready, "launcher"), clock.event("finished", last + 1.0, "launcher")


_FIRST_BYTE_S = 0.2


def _simulate_check(provider: Provider, kind: WatchKind, at: datetime) -> float:
    """Seconds of a check, deterministic for a declaration and a time. The TrialFailure of an outage that lasts then."""
    launcher = provider.launcher_as(SimulatedLauncher)
    outage = next((o for o in launcher.outages if o.watch == kind and o.begin <= at < o.end), None)
    if outage is not None:
        if outage.cause == "maintenance":
            raise InMaintenance("simulated: the nodes are cordoned")
        raise EXCEPTIONS[outage.cause](f"simulated: {outage.cause}")
    luck = random.Random(f"{launcher.seed}|{provider.name}|{kind}|{at.astimezone(timezone.utc).isoformat()}")
    noise = launcher.noise_of("start_up" if kind == "capacity" else "inference")
    wave = 1 + noise.time_of_day * math.cos(2 * math.pi * (at.astimezone(timezone.utc).hour - 18) / 24)
    try:
        level = hardware_of(provider).lead_s if kind == "capacity" else _FIRST_BYTE_S
    except UnknownHardware as unknown:
        raise BadDeclaration(str(unknown)) from unknown
    return float(level * wave * math.exp(noise.run * luck.gauss(0, 1)))


_PROBE_SAMPLES = 30


def simulate_probe(provider: Provider, at: datetime) -> ProbeDocument:
    """Deterministic for a declaration and a time. BadDeclaration for unknown hardware."""
    launcher = provider.launcher_as(SimulatedLauncher)
    try:
        has = hardware_of(provider)
    except UnknownHardware as unknown:
        raise BadDeclaration(str(unknown)) from unknown
    luck = random.Random(f"{launcher.seed}|{provider.name}|probe|{at.astimezone(timezone.utc).isoformat()}")
    node, noise = luck.randrange(launcher.nodes), launcher.noise_of("hardware").run
    figures = {"matmul_tflops": has.matmul, "memory_bandwidth": has.memory}
    rows = tuple(
        metric_row(
            name, level / math.exp(_probe_shift(launcher, name, at, node) + noise * luck.gauss(0, 1)), _PROBE_SAMPLES, phase="environment"
        )
        for name, level in figures.items()
    )
    facts = {**simulated_facts(provider, at), "host.node": node_name(provider, node)}
    return ProbeDocument(harness_version=MODEL_VERSION, taken_at=at, seconds=0.0, environment=Environment.of(facts), metrics=rows)


def _probe_shift(launcher: SimulatedLauncher, name: str, at: datetime, node: int) -> float:
    """Slowdown of a probe on that day, as a logarithm, including changes declared for some workloads only."""
    assert name in get_args(Probe)
    moving = [e for e in launcher.drift if isinstance(e, PerformanceEvent) and e.concerns((e.workloads or ("",))[0], at)]
    return sum(event.shift(at, node) for event in moving if name in event.probes)
