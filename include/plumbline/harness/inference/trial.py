"""One inference trial: the load computed first, then a cold start, then phase after phase, each drained before the next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from plumbline.declarations import EndpointLauncher, InferenceWorkload, Trial
from plumbline.declarations.load import ContextPhaseSpec, FaultPhaseSpec, SearchPhaseSpec
from plumbline.harness.environment.cpu import promised, usable
from plumbline.harness.inference import cold_start, evidence, installation, judging, quality, replicas, repositories
from plumbline.harness.inference.arrivals import Schedule, schedule_of
from plumbline.harness.inference.client import Settings
from plumbline.harness.inference.context import measure_context
from plumbline.harness.inference.cores import divided
from plumbline.harness.inference.endpoint.external import Endpoint
from plumbline.harness.inference.faults import measure_fault
from plumbline.harness.inference.phases import Driver, measure_phase
from plumbline.harness.inference.prompts import Prompts, prompts_of
from plumbline.harness.inference.record import Record
from plumbline.harness.inference.search import measure_search
from plumbline.harness.inference.serving import OwnTriton, SomebodysServer
from plumbline.harness.inference.settling import prepare
from plumbline.harness.inference.triton import Triton
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed
from plumbline.harness.progress import Progress
from plumbline.harness.watch import Watch
from plumbline.results import MetricRow


def measure(trial: Trial, workdir: Path, progress: Progress, watch: Watch, probed: Sequence[MetricRow] = ()) -> Measurement:
    """Measure one inference trial in `workdir`, with a server of its own that is gone afterwards, or against an endpoint.

    `probed`: what the hardware probes found, for the physical floor beside the figures. Raises TrialFailed with everything measured until then:
    image_error      there is no usable tritonserver
    server_error     it ends, its model does not load, or no request of warm-up or steady state succeeds
    timeout          it is not ready in time
    interrupted      a KeyboardInterrupt came
    bad_declaration  the load cannot be computed, or the backend cannot serve what is declared
    harness_error    another schedule was planned than is computed here, or the model runs in another Python environment
    and of an endpoint what `endpoint.failures` says.
    """
    workload = trial.workload
    if not isinstance(workload, InferenceWorkload):
        raise TypeError(f"trial {trial.trial_id} is a {workload.kind} trial; expected an inference trial")
    result = Measurement(seeds={"requests": workload.requests.seed, "weights": workload.model.seed})
    record = Record(trial, workload, workdir, progress, watch, probed, result)
    try:
        schedule, prompts = _load(record)
        record.result.evidence.append(evidence.write_schedule(schedule, workdir))
        if isinstance(trial.provider.launcher, EndpointLauncher):
            _on_endpoint(record, schedule, prompts)
        else:
            _on_own_triton(record, schedule, prompts)
    except TrialFailed as failure:
        raise TrialFailed(failure.failure_class, failure.detail, record.measured()) from failure
    except KeyboardInterrupt as stop:
        # By now the server is gone; what it was measured to do until here is worth keeping.
        raise TrialFailed("interrupted", f"the measurement was asked to stop by {stop or 'the keyboard'}", record.measured()) from stop
    record.result.facts["client.processes"] = max(len(log.cpu_s) for log in record.logs)
    if (few := judging.too_few_requests(workload.acceptance, record.result.metrics)) is not None:
        record.result.judgements.append(few)
    return record.measured()


def _load(record: Record) -> tuple[Schedule, Prompts]:
    try:
        schedule = schedule_of(record.workload)
        prompts = prompts_of(record.workload, schedule)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    hashes = {"schedule": schedule.sha256, "prompts": prompts.sha256, "model": repositories.model_hash(record.workload)}
    record.result.hashes |= {name: value for name, value in hashes.items() if value}
    if record.trial.schedule_hash not in (None, schedule.sha256):
        raise TrialFailed(
            "harness_error",
            f"the arrival schedule computed here hashes to {schedule.sha256}, the planned one to {record.trial.schedule_hash}: "
            "planner and harness are not the same version",
        )
    return schedule, prompts


def _on_own_triton(record: Record, schedule: Schedule, prompts: Prompts) -> None:
    workload, accelerator = record.workload, record.trial.provider.accelerator
    n, each = workload.replicas_on(accelerator.count), workload.needs.count
    # Replicas on a CPU are kept to cores of their own; those on GPUs share the servers' cores, as the processes of one server do.
    apart = n > 1 and accelerator.kind == "cpu"
    cores = divided(usable(), promised(), n * each if apart else 0)
    own = cores.each(n) if apart else None
    installed = installation.find()
    installed.require(workload.server.backend)
    shown = replicas.devices(accelerator, n, each, os.environ)
    repository = repositories.write(workload, record.workdir / "models", threads=len(own[0]) if own else max(1, cores.server_count // n))
    record.report("cold_start", 0.0, "starting tritonserver" if n == 1 else f"starting {n} tritonservers")
    servers = [
        Triton(
            installed,
            repository.folder,
            repository.model,
            record.workdir,
            ready_within_s=workload.ready_timeout_s,
            cpus=own[k] if own else cores.server,
            backend=workload.server.backend,
            variables=shown[k],
            name="server" if n == 1 else f"server-{k}",
        )
        for k in range(n)
    ]
    served = OwnTriton(servers[0], repository, *servers[1:])
    driver = Driver(record, served, Settings(cpus=cores.client))
    cold_start.client_facts(record, cores, own)
    if n > 1:
        record.result.facts["server.replicas"] = n
    try:
        with ExitStack() as server:
            with record.watch.phase("cold_start"):
                server.enter_context(replicas.together(servers))
                cold_start.of_triton(driver, served, prompts.cold_start, int(schedule.phases[0].output_tokens[0]))
            if workload.quality is not None:
                checked = quality.check(workload, repository, *served.target().addresses)
                served.answered(checked.asked)
                record.result.metrics += checked.rows
                record.result.judgements += checked.judgements
            _phases(driver, schedule, prompts)
            record.event("server_stopping")
        record.event("server_stopped")
    finally:
        record.result.evidence += [EvidenceFile("server_log", each.log) for each in servers if each.log.exists()]


def _on_endpoint(record: Record, schedule: Schedule, prompts: Prompts) -> None:
    served = SomebodysServer(Endpoint.of(record.trial))
    driver = Driver(record, served, Settings())
    cold_start.client_facts(record, None)
    with record.watch.phase("cold_start"):
        cold_start.of_endpoint(driver, served, prompts.cold_start, int(schedule.phases[0].output_tokens[0]))
    _phases(driver, schedule, prompts)


def _phases(driver: Driver, schedule: Schedule, prompts: Prompts) -> None:
    """All declared phases, in their order."""
    scheduled = iter(zip(schedule.phases, prompts.by_phase, strict=True))
    for number, spec in enumerate(driver.record.workload.phases):
        if isinstance(spec, SearchPhaseSpec):
            measure_search(driver, number, spec, prompts)
            continue
        if isinstance(spec, ContextPhaseSpec):
            measure_context(driver, spec, [next(scheduled) for _ in spec.input_tokens])
            continue
        load, asked = next(scheduled)
        if spec.name != "warmup":
            prepare(driver, spec.name, prompts)
        if isinstance(spec, FaultPhaseSpec):
            measure_fault(driver, spec, load, asked)
        else:
            measure_phase(driver, load, asked)
