"""One inference trial: compute the load, start the server cold, run each phase and drain it before the next."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from plumbline.declarations import InferenceWorkload, Provider, Trial, installation_paths
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.load import ContextPhaseSpec, FaultPhaseSpec, ScaleOutPhaseSpec, SearchPhaseSpec
from plumbline.declarations.workloads.prompts import selection_hash
from plumbline.harness import engine_python, launcher_protocol
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.environment.cpu import allotted_cores, usable_cores
from plumbline.harness.environment.sysfs import format_ranges
from plumbline.harness.gang.channel import PeerDisconnected, connect
from plumbline.harness.gang.topology import Address
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.checkpoint.contents import Manifest
from plumbline.harness.inference.checkpoint.fetched import FetchedCheckpoint, fetch_companions, fetch_for_trial
from plumbline.harness.inference.endpoint import Endpoint
from plumbline.harness.inference.load.own_prompts import OwnPrompts, PromptFetchFailed, selected_rows
from plumbline.harness.inference.load.prompts import Prompts, prompts_of
from plumbline.harness.inference.load.schedule import Schedule, schedule_of
from plumbline.harness.inference.load.served_tokenizer import tokenizer_of
from plumbline.harness.inference.phases import capacity, trial_record
from plumbline.harness.inference.phases.checkpoint_quality import OutputCheck, reference_workload
from plumbline.harness.inference.phases.context import measure_context
from plumbline.harness.inference.phases.cross_check import measure_cross_check
from plumbline.harness.inference.phases.fault import measure_fault
from plumbline.harness.inference.phases.load_phase import Driver, measure_phase, prepare_cache
from plumbline.harness.inference.phases.scale_out import measure_scale_out
from plumbline.harness.inference.phases.search import measure_search
from plumbline.harness.inference.phases.trial_record import OVERHEAD_S, TrialRecord
from plumbline.harness.inference.server import backends, control, under_test
from plumbline.harness.inference.server.assembly import ServerPlace, assemble, with_provider_args
from plumbline.harness.inference.server.listening import CoreSplit, divide_cores, own_server
from plumbline.harness.inference.server.under_test import ExternalServer, ManagedOpenAi, ManagedTriton
from plumbline.harness.launcher_protocol import Progress
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed
from plumbline.loadclient.load_generator import LOOP
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.round_trip import split_address
from plumbline.loadclient.transport import Settings, Target
from plumbline.results import MetricRow, Scalar, metric_row


def measure(trial: Trial, workdir: Path, progress: Progress, watch: ContentionMonitor, probed: Sequence[MetricRow] = ()) -> Measurement:
    """Measure one inference trial in `workdir`, with an own server that is gone afterwards, or against an endpoint.

    `probed`: rows of the hardware probes, for the roofline. Raises TrialFailed with everything measured until then:
    image_error      no usable tritonserver, or no engine
    unreachable, quota_exceeded, bad_declaration: also of a checkpoint, see `fetch_for_trial`
    server_error     it ends, its model does not load, or no request of warm-up or steady state succeeds
    timeout          it is not ready in time
    interrupted      a KeyboardInterrupt came
    bad_declaration  the load cannot be computed, or the backend cannot serve what is declared
    harness_error    another schedule was planned than is computed here, or the model runs in another Python environment
    An endpoint's failures: see `endpoint.classify_failure`."""
    if (workload := trial.workload.serving) is None:
        raise TypeError(f"trial {trial.trial_id} is a {trial.workload.kind} trial; expected an inference trial")
    checkpoint = isinstance(workload.model, Checkpoint)
    result = Measurement(seeds={"requests": workload.requests.seed, "sampling" if checkpoint else "weights": workload.model.seed})
    record = TrialRecord(trial, workload, workdir, progress, watch, probed, result)
    try:
        credentials = launcher_protocol.take_models_credentials()
        fetched, outputs = _fetch(record, credentials) if checkpoint and not trial.hosted else (None, None)
        schedule, prompts = _load(record, fetched, credentials[0])
        record.result.evidence.append(trial_record.write_schedule(schedule, workdir))
        if trial.hosted:
            _on_endpoint(record, schedule, prompts, OutputCheck(workload))
        else:
            _on_own_server(record, schedule, prompts, fetched, outputs)
    except TrialFailed as failure:
        raise TrialFailed(failure.failure_class, record.publishable(failure.detail), record.measured()) from failure
    except KeyboardInterrupt as stop:
        # By now the server is gone; what it was measured to do until here is worth keeping.
        raise TrialFailed("interrupted", f"the measurement was asked to stop by {stop or 'the keyboard'}", record.measured()) from stop
    if workload.requests.output == "natural":
        record.result.facts["requests.output"] = "natural"
    record.result.facts["client.processes"] = max(len(log.cpu_s) for log in record.logs)
    if (few := validity.too_few_requests(workload.acceptance, record.result.metrics)) is not None:
        record.result.judgements.append(few)
    return record.measured()


def _fetch(record: TrialRecord, credentials: tuple[str | None, dict[str, object] | None]) -> tuple[FetchedCheckpoint, OutputCheck | None]:
    """Before any server starts, so that its start is measured without the network; with the reference's files, which are not measured."""

    def note(text: str) -> None:
        record.report("cold_start", 0.0, text)

    access = record.trial.provider.launcher.model_access
    cache = Path(access.cache) if access.cache else installation_paths().cache / "models"

    def get(workload: InferenceWorkload) -> tuple[FetchedCheckpoint, InferenceWorkload]:
        return fetch_for_trial(workload, record.trial.provider, cache, access.mirror, credentials, note)

    record.event("model_fetch_started")
    fetched, record.workload = get(record.workload)
    record.event("model_fetched")
    record.result.metrics += fetched.rows()
    record.result.facts |= fetched.facts()
    _keep_manifest(record, "manifest", fetched.manifest)
    record.workload, companions = fetch_companions(record.workload, cache, access.mirror, credentials, note)
    for field, each in companions.items():
        record.result.facts |= each.facts(field)
        _keep_manifest(record, f"{_COMPANION}{field}", each.manifest)
    reference = None
    if record.workload.quality is not None:
        reference = get(reference_workload(record.workload))
        record.result.hashes["reference_manifest"] = reference[0].manifest.sha256
    return fetched, OutputCheck.of(record.workload, fetched.folder, reference)


_COMPANION = "manifest."
"""Begins the names of companions' hashes."""


def _keep_manifest(record: TrialRecord, name: str, manifest: Manifest) -> None:
    record.result.hashes[name] = manifest.sha256
    listing = record.workdir / f"{name}.json"
    listing.write_text(manifest.to_json(), encoding="utf-8")
    record.result.evidence.append(EvidenceFile("manifest", listing))


def _load(record: TrialRecord, fetched: FetchedCheckpoint | None = None, token: str | None = None) -> tuple[Schedule, Prompts]:
    try:
        schedule = schedule_of(record.workload)
        planned = schedule.sha256
        if record.workload.requests.prompts is None:
            prompts = prompts_of(record.workload, schedule)
        else:
            schedule, prompts = _own_prompts(record, schedule, None if fetched is None else fetched.folder, token)
    except ValueError as error:
        raise TrialFailed("bad_declaration", str(error)) from error
    except PromptFetchFailed as error:
        raise TrialFailed("unreachable", str(error)) from error
    stored = record.result.hashes
    companions = {name.removeprefix(_COMPANION): value for name, value in stored.items() if name.startswith(_COMPANION)}
    hashes = {
        "schedule": planned,
        "prompts": prompts.sha256,
        "model": backends.model_hash(record.workload, None if fetched is None else fetched.manifest.sha256, companions),
    }
    record.result.hashes |= {name: value for name, value in hashes.items() if value}
    if record.trial.schedule_hash not in (None, planned):
        raise TrialFailed(
            "harness_error",
            f"the arrival schedule computed here hashes to {planned}, the planned one to {record.trial.schedule_hash}: "
            "planner and harness are not the same version",
        )
    return schedule, prompts


def _own_prompts(record: TrialRecord, schedule: Schedule, checkpoint: Path | None, token: str | None) -> tuple[Schedule, Prompts]:
    """The schedule with the lengths of the workload's own prompts, and these; all are checked before a server starts."""
    workload, declared = record.workload, record.workload.requests.prompts
    assert declared is not None
    mirror = record.trial.provider.launcher.model_access.mirror
    hub = mirror if mirror is not None and mirror.startswith(("http://", "https://")) else None
    rows = selected_rows(declared, hub, token)
    if declared.private:
        record.private_texts = tuple(text for row in rows for text in row.contents)
    own = OwnPrompts(workload, rows, tokenizer_of(workload, checkpoint))
    own.check()
    fitted, prompts = own.schedule(schedule)
    sent = sum(load.n for load in fitted.phases)
    record.result.facts |= {
        "prompts.source": declared.source,
        "prompts.format": declared.format,
        "prompts.sampled": len(rows),
        "prompts.private": declared.private,
        "prompts.sha256": selection_hash(rows),
        # A prompt that is sent again may be in a prefix cache.
        "prompts.sent_again": sent - len({id(prompt) for phase in prompts.by_phase for prompt in phase}),
        "prompts.tokens_counted_by": "server" if own.tokenizer is None else "tokenizer",
    }
    return fitted, prompts


def _on_own_server(
    record: TrialRecord,
    schedule: Schedule,
    prompts: Prompts,
    fetched: FetchedCheckpoint | None,
    outputs: OutputCheck | None,
) -> None:
    workload = record.workload = with_provider_args(record.workload, record.trial.provider)
    accelerator = record.trial.provider.accelerator
    n, each = workload.replicas_on(accelerator.count), workload.needs.count
    # Replicas on a CPU are kept to cores of their own; those on GPUs share the servers' cores, as the processes of one server do.
    apart = n > 1 and accelerator.kind == "cpu"
    cores = divide_cores(usable_cores(), allotted_cores(), n * each if apart else 0)
    own = cores.each(n) if apart else None
    devices = under_test.visible_devices(accelerator, n, each, os.environ)
    place = ServerPlace(record.workdir, own or [cores.server] * n, devices, len(own[0]) if own else max(1, cores.server_count // n))
    if outputs is not None:
        outputs.ask_reference(record, place)  # before the server starts: two of them would share memory and cores
    served = assemble(workload, place, None if fetched is None else fetched.folder)
    record.report("cold_start", 0.0, f"starting {served.servers[0].program}" if n == 1 else f"starting {n} × {served.servers[0].program}")
    driver = Driver(record, served, Settings(cpus=cores.client))
    client_facts(record, cores, own)
    if n > 1:
        record.result.facts["server.replicas"] = n
    unasked: dict[Path, int] = {}
    try:
        with ExitStack() as server:
            with record.watch.phase("cold_start"):
                server.enter_context(under_test.all_running(served.servers))
                # From here on a server may log the prompts that it reads.
                unasked = {each.log: each.log.stat().st_size for each in served.servers if each.log.exists()}
                of_own_server(driver, served, prompts.cold_start, int(schedule.phases[0].output_tokens[0]))
            if outputs is not None:
                served.answered(outputs.check(record, served.target()))
            _phases(driver, schedule, prompts)
            record.event("server_stopping")
        record.event("server_stopped")
        capacity.conclude_on_own_server(record, place, cores.client, None if fetched is None else fetched.folder)
    finally:
        if record.private_texts:
            for log, size in unasked.items():
                os.truncate(log, size)
        record.result.evidence += [EvidenceFile("server_log", each.log) for each in served.servers if each.log.exists()]


def _on_endpoint(record: TrialRecord, schedule: Schedule, prompts: Prompts, outputs: OutputCheck) -> None:
    served = ExternalServer(Endpoint.of(record.trial))
    with own_server(served.endpoint.launcher, record.watch) as here:
        cores, server = here or (None, None)
        driver = Driver(record, served, Settings(cpus=cores.client if cores else None))
        client_facts(record, cores)
        if server is not None:
            record.result.facts["server.process"] = server.name
        with record.watch.phase("cold_start"):
            if record.trial.provider.launcher.runs_pods:
                _await_servers(record, served.target())
            of_endpoint(driver, served, prompts.cold_start, int(schedule.phases[0].output_tokens[0]))
        if record.workload.evaluation is not None:
            outputs.check(record, served.target())
        try:
            _phases(driver, schedule, prompts)
            capacity.conclude_on_endpoint(
                record,
                hidden=server is None and not served.endpoint.launcher.near,
                apart=server is None or (cores is not None and cores.client is not None),
            )
        finally:
            if (source := served.token_count_source(record.logs)) is not None:
                record.result.facts["endpoint.token_count"] = source


def _await_servers(record: TrialRecord, target: Target) -> None:
    """Until a server of the trial's Deployment takes connections; TrialFailed("timeout"). Its pod waits for a node and starts before that."""
    limit_s = record.trial.provider.launcher.gang_assembly_s + record.workload.ready_timeout_s
    try:
        connect(Address(*split_address(target.address)), limit_s, lambda why: record.report("cold_start", 0.0, why)).close()
    except PeerDisconnected as error:
        raise TrialFailed("timeout", f"no server of the Deployment is ready: {error}") from error
    record.event("server_ready")


def _phases(driver: Driver, schedule: Schedule, prompts: Prompts) -> None:
    scheduled = iter(zip(schedule.phases, prompts.by_phase, strict=True))
    for number, spec in enumerate(driver.record.workload.phases):
        if isinstance(spec, SearchPhaseSpec):
            measure_search(driver, number, spec, prompts)
            continue
        if isinstance(spec, ContextPhaseSpec):
            measure_context(driver, spec, [next(scheduled) for _ in spec.input_tokens])
            continue
        load, phase_prompts = next(scheduled)
        if spec.name != "warmup":
            prepare_cache(driver, spec.name, prompts)
        if isinstance(spec, FaultPhaseSpec):
            measure_fault(driver, spec, load, phase_prompts)
        elif isinstance(spec, ScaleOutPhaseSpec):
            measure_scale_out(driver, spec, load, phase_prompts)
        else:
            measure_phase(driver, load, phase_prompts)
        if spec.name == "steady":
            measure_cross_check(driver, load, phase_prompts)


_TO_READY = 0.6
"""Share of the trial's overhead."""


def of_own_server(driver: Driver, served: ManagedTriton | ManagedOpenAi, prompt: Prompt, output_tokens: int) -> None:
    """Rows of a started server, its facts, and its first inference.

    Raises TrialFailed: "server_error" if that fails, "harness_error" if the model runs in another Python environment."""
    record, start = driver.record, served.start_up
    record.event("server_started", start.started)
    record.event("server_ready", start.ready)
    record.report("cold_start", _TO_READY * OVERHEAD_S, "first inference")
    _facts(record, served)
    record.result.metrics += [
        metric_row("time_to_ready", start.time_to_ready_s, served.replicas, phase="cold_start"),
        metric_row("model_load_time", start.model_load_s, served.replicas if start.model_load_s is not None else 0, phase="cold_start"),
    ]
    first_inference(driver, prompt, output_tokens)


def of_endpoint(driver: Driver, served: ExternalServer, prompt: Prompt, output_tokens: int) -> None:
    """The first inference of an external server, and its facts; TrialFailed if it fails."""
    driver.record.report("cold_start", 0.0, "first inference")
    first_inference(driver, prompt, output_tokens)
    driver.record.result.facts |= served.endpoint.facts()


def first_inference(driver: Driver, prompt: Prompt, output_tokens: int) -> None:
    """Send one request to each fresh server; the slowest counts."""
    record = driver.record
    log = driver.drive_each("warmup", [prompt], output_tokens, note="first inference: ")
    record.event("first_inference_ended")
    complete = log.finished == log.n
    latency = float((log.last_token - log.dispatched).max()) if complete else None
    record.result.metrics.append(metric_row("first_inference_latency", latency, log.finished, phase="cold_start"))
    if not complete:
        failure_class, why = driver.served.failure(log)
        raise TrialFailed(failure_class, f"the first inference failed: {why}")
    record.done_s = OVERHEAD_S


def client_facts(record: TrialRecord, cores: CoreSplit | None, apart: Sequence[Sequence[int]] | None = None) -> None:
    """The client's settings, and the cores of client and server (None: the server is external). `apart`: cores of each replica."""
    record.result.facts |= {"client.loop": LOOP, "client.placement": record.workload.server.client_placement}
    if (place := record.trial.provider.launcher.client_place) is not None:
        record.result.facts["client.place"] = place
    if cores is not None:
        record.result.facts |= {
            "client.cpus": format_ranges(cores.client) if cores.client else cores.description,
            "server.cpus": "; ".join(map(format_ranges, apart))
            if apart
            else format_ranges(cores.server)
            if cores.server
            else cores.description,
        }


def _facts(record: TrialRecord, served: ManagedTriton | ManagedOpenAi) -> None:
    about, facts = served.start_up.about, record.result.facts
    if isinstance(served, ManagedTriton):
        about = about or dict(served.repository.about)
        facts |= {
            "triton.version": control.server_version(served.triton.address),
            "triton.backend": served.repository.backend,
            "client.grpc": version("grpcio"),
            **{
                f"model.{key}": about.get(key)
                for key in ("parameters", "dtype", "device", "threads", "python", "torch")
                if about.get(key) is not None or f"model.{key}" not in facts  # the checkpoint's files say what a server may not
            },
            # Keys and values of all rows: reserved, and resident, from the start on.
            **{f"model.{key}": about[key] for key in ("kv_cache_bytes", "kv_cache_tokens") if about.get(key) is not None},
        }
        if "prefix" in about and about["prefix"] != (expected := os.path.realpath(engine_python.describe().prefix)):
            raise TrialFailed("harness_error", f"the model runs in the Python environment {about['prefix']}; expected {expected}")
    facts |= engine_facts(_as_declared(record), record.trial.provider, about)


def _as_declared(record: TrialRecord) -> InferenceWorkload:
    """The workload with the sources of its companions: where a cache has them is no fact of the engine."""
    declared = record.trial.workload.serving
    assert declared is not None
    own = {name: getattr(declared.server, name) for name in ("speculative", "adapters")}
    return record.workload.model_copy(update={"server": record.workload.server.model_copy(update=own)})


def engine_facts(workload: InferenceWorkload, provider: Provider, about: Mapping[str, Any]) -> dict[str, Scalar]:
    """`engine.name`, `engine.version`, and how the declarations set it up (`engine.args_from` says whose arguments those are); nothing for the
    project's own models."""
    if "engine" not in about:
        return {}
    server = workload.server
    facts: dict[str, Scalar] = {"engine.name": about["engine"], "engine.version": about["engine_version"]}
    if server.command is not None:
        facts["engine.command"] = shlex.join(server.command)
    declared = server.model_dump(mode="json")
    for field, files in server.fetched_files.items():
        group, _, adapter = field.partition(".")
        declared[group][adapter or "model"] = files.model_dump(mode="json", exclude_defaults=True)
    for field in ("engine_args", "parallel", "speculative", "adapters"):
        if value := declared[field]:
            facts[f"engine.{field.removeprefix('engine_')}"] = json.dumps(value, sort_keys=True)
    if (share := about.get("gpu_memory_utilization")) is not None:
        facts["engine.gpu_memory_utilization"] = share
    if "engine.args" in facts:
        facts["engine.args_from"] = "provider's" if any(backend == server.backend for backend in provider.engine_args) else "standard"
    return facts
