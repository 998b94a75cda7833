"""One inference trial: schedule first, then a cold start, then phase after phase of load, each drained before the next."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import grpc
import numpy as np

from plumbline.declarations import InferenceWorkload, Trial
from plumbline.harness.inference import client, control, evidence, installation, judging, repository
from plumbline.harness.inference.arrivals import PhaseLoad, Schedule, schedule_of
from plumbline.harness.inference.metrics import metrics_of, stages_of
from plumbline.harness.inference.prompts import Prompts, TokenIds, prompts_of
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.triton import Triton
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed
from plumbline.harness.progress import Progress
from plumbline.harness.watch import Watch
from plumbline.results import Event, Telemetry, row

READY_WITHIN_S = 300.0
_COUNT_WITHIN_S = 1.0
_OVERHEAD_S = 5.0  # what a trial takes besides its load: only progress is reckoned with it


def measure(trial: Trial, workdir: Path, progress: Progress, watch: Watch) -> Measurement:
    """Measure one inference trial in `workdir`, with a server of its own that is gone afterwards.

    Raises TrialFailed with everything measured until then:
    image_error      there is no usable tritonserver
    server_error     it ends, its model does not load, or no request of warm-up or steady state succeeds
    timeout          it is not ready in time
    interrupted      a KeyboardInterrupt came
    bad_declaration  the load cannot be computed
    harness_error    another schedule was planned than is computed here, or the model runs in another Python environment
    """
    workload = trial.workload
    if not isinstance(workload, InferenceWorkload):
        raise TypeError(f"trial {trial.trial_id} is a {workload.kind} trial; expected an inference trial")
    run = _Run(trial, workload, workdir, progress, watch)
    try:
        run.everything()
    except TrialFailed as failure:
        raise TrialFailed(failure.failure_class, failure.detail, run.measured()) from failure
    except KeyboardInterrupt as stop:
        # By now the server is gone; what it was measured to do until here is worth keeping.
        raise TrialFailed("interrupted", f"the measurement was asked to stop by {stop or 'the keyboard'}", run.measured()) from stop
    return run.measured()


class _Run:
    """The state of one trial."""

    def __init__(self, trial: Trial, workload: InferenceWorkload, workdir: Path, progress: Progress, watch: Watch) -> None:
        self.trial, self.workload, self.workdir, self.progress, self.watch = trial, workload, workdir, progress, watch
        self.result = Measurement(seeds={"requests": workload.requests.seed, "weights": workload.model.seed})
        self.logs: list[RequestLog] = []
        self.total_s = _OVERHEAD_S + sum(phase.duration for phase in workload.phases)
        self.done_s = 0.0
        self.answered = 0

    def everything(self) -> None:
        schedule, prompts = self._load()
        self.result.evidence.append(evidence.write_schedule(schedule, self.workdir))
        installed = installation.find()
        models = repository.write(self.workload, self.workdir / "models")
        self._report("cold_start", 0.0, "starting tritonserver")
        triton = Triton(installed, models, repository.MODEL, self.workdir, ready_within_s=READY_WITHIN_S)
        try:
            with ExitStack() as server:
                with self.watch.phase("cold_start"):
                    server.enter_context(triton)
                    self._cold_start(triton, prompts.cold_start, int(schedule.phases[0].output_tokens[0]))
                for load, texts in zip(schedule.phases, prompts.by_phase, strict=True):
                    self._phase(triton, load, texts)
                self._event("server_stopping")
            self._event("server_stopped")
        finally:
            if triton.log.exists():
                self.result.evidence.append(EvidenceFile("server_log", triton.log))

    def measured(self) -> Measurement:
        """The measurement so far, with the requests seen until now."""
        seen = [item for item in self.result.evidence if item.kind != "requests"]
        self.result.evidence = [*seen, evidence.write_requests(self.logs, self.workdir)] if self.logs else seen
        return self.result

    def _load(self) -> tuple[Schedule, Prompts]:
        try:
            schedule = schedule_of(self.workload)
            prompts = prompts_of(self.workload, schedule)
        except ValueError as error:
            raise TrialFailed("bad_declaration", str(error)) from error
        self.result.hashes |= {"schedule": schedule.sha256, "prompts": prompts.sha256, "model": repository.model_hash(self.workload)}
        if self.trial.schedule_hash not in (None, schedule.sha256):
            raise TrialFailed(
                "harness_error",
                f"the arrival schedule computed here hashes to {schedule.sha256}, the planned one to {self.trial.schedule_hash}: "
                "planner and harness are not the same version",
            )
        return schedule, prompts

    def _cold_start(self, triton: Triton, prompt: TokenIds, output_tokens: int) -> None:
        start = triton.start_up
        self._event("server_started", start.started)
        self._event("server_ready", start.ready)
        self._report("cold_start", 0.6 * _OVERHEAD_S, "first inference")
        self._facts(triton)
        load = PhaseLoad("warmup", 0.0, np.zeros(1), np.array([len(prompt)], np.int32), np.array([output_tokens], np.int32))
        first = client.drive(load, [prompt], self._target(triton), timeout_s=self.workload.request_timeout).requests[0]
        self._event("first_inference_ended")
        latency = first.last_token - first.dispatched if first.ok else None
        self.result.metrics += [
            row("time_to_ready", start.time_to_ready_s, 1, phase="cold_start"),
            row("model_load_time", start.model_load_s, int(start.model_load_s is not None), phase="cold_start"),
            row("first_inference_latency", latency, 1, phase="cold_start"),
        ]
        if not first.ok:
            raise TrialFailed("server_error", f"the first inference failed ({first.error}: {first.detail}); {triton.state()}")
        self.done_s, self.answered = _OVERHEAD_S, 1

    def _phase(self, triton: Triton, load: PhaseLoad, prompts: tuple[TokenIds, ...]) -> None:
        resident: list[int] = [triton.resident_bytes()]

        def tick(ended: int, requests: int) -> None:
            resident.append(triton.resident_bytes())
            self._report(load.name, min(time.monotonic() - began, load.duration_s), f"{ended} of {requests} requests")

        if not triton.running():
            raise TrialFailed("server_error", f"before {load.name}: {triton.state()}")
        before = self._statistics(triton)
        self._event(f"{load.name}_started")
        began = time.monotonic()
        with self.watch.phase(load.name):
            log = client.drive(load, prompts, self._target(triton), timeout_s=self.workload.request_timeout, tick=tick)
        self._event(f"{load.name}_ended")
        self.logs.append(log)
        if not triton.running():
            raise TrialFailed("server_error", f"{_summary(log)}; {triton.state()}")
        self.answered += len(log.finished)
        after = self._statistics(triton)
        served = after - before if after and before else None
        self.result.metrics += metrics_of(log, self.workload.slo, served)
        self.result.stages += stages_of(log)
        self.result.telemetry.append(_telemetry(load, resident))
        if load.name == "steady":
            found = (judging.client_limited(log, self.trial.validity), judging.counts_differ(log, served))
            self.result.judgements += [judgement for judgement in found if judgement is not None]
        # Overload may drown a server, and that is a result; one that answers nothing at its steady load was not measured at all.
        if load.name in ("warmup", "steady") and not log.finished:
            raise TrialFailed("server_error", f"{_summary(log)}; {triton.complaint()}")
        self.done_s += load.duration_s

    def _statistics(self, triton: Triton) -> control.Statistics | None:
        """The server's counters, once they hold every request that was answered: it counts a request after its answer."""
        deadline = time.monotonic() + _COUNT_WITHIN_S
        try:
            found = control.statistics(triton.address, triton.model)
            while found.succeeded < self.answered and time.monotonic() < deadline:
                time.sleep(0.02)
                found = control.statistics(triton.address, triton.model)
        except grpc.RpcError:
            return None  # the queue time is then absent, and nothing else depends on it
        return found

    def _facts(self, triton: Triton) -> None:
        about = triton.start_up.about
        self.result.facts |= {
            "triton.version": control.version(triton.address),
            "triton.backend": self.workload.server.backend,
            "client.loop": client.LOOP,
            "client.grpc": version("grpcio"),
            **{f"model.{key}": about.get(key) for key in ("parameters", "dtype", "device", "threads", "python", "torch")},
        }
        if about and about["prefix"] != sys.prefix:
            raise TrialFailed("harness_error", f"the model runs in the Python environment {about['prefix']}; expected {sys.prefix}")

    def _target(self, triton: Triton) -> client.Target:
        return client.Target(triton.address, triton.model, triton.running)

    def _event(self, name: str, monotonic_s: float | None = None) -> None:
        now = time.monotonic()
        at = now if monotonic_s is None else monotonic_s
        self.result.events.append(Event(name=name, utc=datetime.fromtimestamp(time.time() - (now - at), timezone.utc), monotonic_s=at))

    def _report(self, phase: str, into_s: float, note: str) -> None:
        self.progress(phase, (self.done_s + into_s) / self.total_s, note)


def _summary(log: RequestLog) -> str:
    counts = ", ".join(f"{n} {name}" for name, n in log.errors().items())
    return f"{len(log.finished)} of {len(log.requests)} requests of {log.load.name} finished ({counts}); first error: {log.first_error()}"


def _telemetry(load: PhaseLoad, resident: list[int]) -> Telemetry:
    values = [float(v) for v in resident if v] or [math.nan]
    return Telemetry(
        phase=load.name,
        signal="server_resident",
        unit="bytes",
        n=len(values),
        mean=sum(values) / len(values),
        min=min(values),
        max=max(values),
    )
