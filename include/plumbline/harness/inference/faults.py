"""A phase with a fault in it: the fault is brought about at its moment, and what it cost and how long it lasted is taken down."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plumbline.declarations.load import FaultPhaseSpec
from plumbline.harness.inference import judging, recovery
from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.metrics import good, metrics_of
from plumbline.harness.inference.models import journal
from plumbline.harness.inference.phases import Driver, require_running
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.record import Record
from plumbline.harness.inference.recovery import Recovery
from plumbline.harness.inference.requestlog import ERROR_CLASSES, RequestLog
from plumbline.harness.inference.serving import OwnTriton, Served, told
from plumbline.harness.inference.stages import stages_of
from plumbline.harness.measurement import EvidenceFile, Judgement, TrialFailed
from plumbline.results import MetricRow, Reason, row

_POLL_S = 0.005
_STARTED_WITHIN_S = 1.0
_GIVEN_UP = [ERROR_CLASSES.index(name) + 1 for name in ("timeout", "cancelled", "wrong_output")]


@dataclass
class _Injection:
    """What happened when; moments are monotonic seconds. `rows` are what the server's way back was measured to take."""

    began: float = float("nan")
    ended: float = float("nan")
    events: list[tuple[str, float]] = field(default_factory=list)
    rows: list[MetricRow] = field(default_factory=list)


def _kill(served: OwnTriton, injection: _Injection) -> None:
    injection.began = injection.ended = served.triton.kill()
    injection.events.append(("fault_injected", injection.began))
    start = served.triton.start_again()
    injection.events.append(("server_restarted", start.ready))
    injection.rows += [
        row("time_to_ready", start.time_to_ready_s, 1, phase="fault"),
        row("model_load_time", start.model_load_s, int(start.model_load_s is not None), phase="fault"),
    ]


def _reload(served: OwnTriton, injection: _Injection) -> None:
    injection.began = injection.ended = time.monotonic()
    done = served.reload()
    injection.began = injection.ended = done.began
    injection.events += [("fault_injected", done.began), ("model_reloaded", done.ended)]
    injection.rows += [
        row("model_unload_time", done.unload_s, 1, phase="fault"),
        row("model_load_time", done.load_s, 1, phase="fault"),
    ]


_DEEDS: dict[str, Callable[[OwnTriton, _Injection], None]] = {"server_kill": _kill, "model_reload": _reload}


class _Deed:
    """Does one thing to the server at its moment, in a thread of its own: the client is busy with the load."""

    def __init__(self, served: OwnTriton, at_s: float, do: Callable[[OwnTriton, _Injection], None]) -> None:
        self.served, self.at_s, self.do = served, at_s, do
        self.injection = _Injection()
        self.underway = False
        self.failure: BaseException | None = None
        self._began: float | None = None
        self._over = threading.Event()
        # A daemon: an interrupt must not wait for a server to come back.
        self._thread = threading.Thread(target=self._run, name="fault", daemon=True)

    def __enter__(self) -> _Deed:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._over.set()
        # After an interrupt nobody waits for the server to be ready, only until its process is known to those who will end it.
        self._thread.join(None if kind is None else _STARTED_WITHIN_S)

    def watch(self, log: RequestLog) -> bool:
        """Tell the thread when the phase began; True, which ends the phase, once the deed has failed."""
        if self._began is None and np.isfinite(log.began):
            self._began = log.began
        return self.failure is not None

    def running(self) -> bool:
        """Whether the server lives, or is on its way back."""
        return self.failure is None and (self.underway or self.served.running())

    def _run(self) -> None:
        while self._began is None or time.monotonic() < self._began + self.at_s:
            left = _POLL_S if self._began is None else self._began + self.at_s - time.monotonic()
            if self._over.wait(max(0.0, left)):
                return
        self.underway = True
        try:
            self.do(self.served, self.injection)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that waits for it raises it
            self.failure = error
        finally:
            self.underway = False


def measure_fault(driver: Driver, spec: FaultPhaseSpec, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Drive the phase, inject its fault, and take down both parts: `fault` until the service is back, `recovery` from then on.

    Raises TrialFailed as a server's start does if it does not come back, "server_error" if it is gone without our doing, and
    "bad_declaration" if the load was over before the fault.
    """
    record, served = driver.record, driver.served
    require_running(served, "before fault")
    written = journal.position(served.journals) if isinstance(served, OwnTriton) else {}
    record.event("fault_started")
    with served.beside("fault") as beside, record.watch.phase("fault"):
        log, injection = _driven(driver, spec, load, prompts, beside.sample)
    record.event("fault_ended")
    record.logs.append(log)
    record.result.telemetry += beside.telemetry()
    require_running(served, told(log))
    if np.isnan(injection.began):
        raise TrialFailed(
            "bad_declaration",
            f"the last request of phase fault had ended before {spec.at:g}s, when {spec.inject} was to come: nobody was there to notice; "
            "expected arrivals beyond phases.fault.at",
        )
    found = recovery.recovery_of(log, good(log, record.workload.slo), injection.began - log.began, injection.ended - log.began)
    for name, at in injection.events:
        record.event(name, at)
    if found.back is not None:
        record.event("recovered", log.began + found.back)
    record.result.metrics += [
        *injection.rows,
        row("time_to_recover", found.took_s, int(found.took_s is not None), phase="fault"),
        row("requests_lost", found.lost, log.n, phase="fault"),
    ]
    _parts(record, log, found, spec.duration)
    limited = judging.client_limited(log, record.trial.validity) if spec.inject == "overload" else None
    book = Journaled.of(served, written, log)
    record.result.judgements += [item for item in (limited, book.differs(log) if book else None, _no_recovery(found)) if item is not None]
    record.result.evidence.append(_evidence(record, spec, log, found, book))
    record.done_s += spec.duration


def _driven(
    driver: Driver, spec: FaultPhaseSpec, load: PhaseLoad, prompts: Sequence[Prompt], sample: Callable[[], None]
) -> tuple[RequestLog, _Injection]:
    served = driver.served
    if spec.inject in _DEEDS:
        assert isinstance(served, OwnTriton), "nobody can do this to a server that somebody else runs"
        with _Deed(served, spec.at, _DEEDS[spec.inject]) as deed:
            log = driver.drive(load, prompts, sample=sample, stop=deed.watch, running=deed.running)
        if isinstance(deed.failure, TrialFailed):
            driver.record.logs.append(log)
            raise TrialFailed(deed.failure.failure_class, f"after {spec.inject}: {deed.failure.detail}") from deed.failure
        if deed.failure is not None:
            raise deed.failure
        return log, deed.injection
    assert spec.lasts is not None and spec.factor is not None
    settings = driver.settings
    if spec.inject == "slow_client":
        settings = replace(settings, slow_share=spec.factor, slow_from_s=spec.at, slow_until_s=spec.at + spec.lasts)
    log = driver.drive(load, prompts, sample=sample, settings=settings)
    began, ended = log.began + spec.at, log.began + spec.at + spec.lasts
    return log, _Injection(began, ended, [("fault_injected", began), ("fault_over", ended)])


def _parts(record: Record, log: RequestLog, found: Recovery, duration_s: float) -> None:
    back = duration_s if found.back is None else found.back
    for part in (recovery.part_of(log, "fault", 0.0, back), recovery.part_of(log, "recovery", back, duration_s)):
        if part.n:
            # Counters of a server that was killed are gone, and those of one that was not cannot be divided.
            record.result.metrics += metrics_of(part, record.workload.slo, None)
            record.result.stages += stages_of(part, None)


def _no_recovery(found: Recovery) -> Judgement | None:
    if found.back is not None:
        return None
    return Judgement("degraded", Reason(code="no_recovery", detail=f"no time to recover: {found.why}"))


@dataclass(frozen=True)
class Journaled:
    """What the model processes wrote down: numbers of the requests that each incarnation began, and of all that were answered."""

    started: tuple[int, ...]
    finished: frozenset[int]

    @classmethod
    def of(cls, served: Served, written: journal.Position, log: RequestLog) -> Journaled | None:
        """Since `written`; None where the model keeps no journal."""
        if not isinstance(served, OwnTriton):
            return None
        entries = journal.read(served.journals, written)
        if not entries:
            return None
        return cls(tuple(len(item.started) for item in entries), frozenset(n for item in entries for n in item.finished if n < log.load.n))

    def differs(self, log: RequestLog) -> Judgement | None:
        """Whether client and server disagree on who was answered. A request that the client gave up may have been answered all the same."""
        ok = set(np.flatnonzero(log.ok).tolist())
        given_up = set(np.flatnonzero(np.isin(log.error, _GIVEN_UP)).tolist())
        unseen, unheard = ok - self.finished, self.finished - ok - given_up
        if not unseen and not unheard:
            return None
        detail = (
            f"the client finished {len(ok)} requests in {log.load.name}, the server answered {len(self.finished)}: "
            f"{len(unheard)} answers did not arrive and {len(unseen)} came from nowhere"
        )
        return Judgement("degraded", Reason(code="counts_differ", detail=detail))


def _evidence(record: Record, spec: FaultPhaseSpec, log: RequestLog, found: Recovery, book: Journaled | None) -> EvidenceFile:
    """`fault.json`: seconds from the start of the phase; counts by the client and, where its model wrote them down, by the server."""
    path = record.workdir / "fault.json"
    content = {
        "inject": spec.inject,
        "began_s": found.began,
        "ended_s": found.ended,
        "back_s": found.back,
        "no_recovery": found.why or None,
        "requests": log.n,
        "finished": log.finished,
        "failed": log.n - log.finished,
        "errors": log.errors(),
        "lost": found.lost,
        "server_started_by_incarnation": list(book.started) if book else None,
        "server_finished": len(book.finished) if book else None,
        "server_never_finished": log.n - len(book.finished) if book else None,
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return EvidenceFile("fault", path)
