"""A fault phase: inject the fault at its time, find when the service recovered, and count the requests lost.

The rule. A window is a request and all those scheduled within the second after it, or the nine next ones if those reach further. The service
is back at the scheduled time of the first request, scheduled at or after the end of the fault, that is good and whose window holds as
large a share of good requests as there was before the fault (all of them, if all were good before). The end of a fault is the moment of the
kill, or the last moment of an overload: what lasts is only recovered from once it is over.

A server that goes on missing has good windows too. All requests from that moment to the end of the phase must miss no more than those before the fault
explain, and be better than luck of a service that goes on as between the fault and that moment (`analysis.recovery`).

No recovery: the phase ends before such a window is whole, or before enough good time followed it, or less than half of the requests were good before the fault, so that there was no
service to come back to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.load import FaultPhaseSpec
from plumbline.harness.inference.analysis import validity
from plumbline.harness.inference.analysis.metrics import metrics_of, stages_of, within_slo
from plumbline.harness.inference.analysis.recovery import is_as_good, is_shown
from plumbline.harness.inference.models import journal
from plumbline.harness.inference.phases.load_phase import Driver, length_telemetry, noted_lengths, require_running
from plumbline.harness.inference.phases.trial_record import TrialRecord
from plumbline.harness.inference.server.under_test import ManagedServers, ManagedTriton, ServerUnderTest, format_outcome
from plumbline.harness.measurement import EvidenceFile, TrialFailed, TrialJudgement, degraded, present
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import ERROR_CLASSES, RequestLog
from plumbline.metrics import LoadPhase
from plumbline.results import MetricRow, metric_row

WINDOW_S, WINDOW_REQUESTS = 1.0, 10
_SERVED = 0.5


@dataclass(frozen=True)
class Recovery:
    """The cost of a fault. Times are seconds from the start of the phase.

    began, ended   of the fault itself
    back           the moment from which the service was back; None: it did not come back, and `why` says so
    lost           requests that failed because of it: scheduled before the service was back, and not over before the fault began
    """

    began: float
    ended: float
    back: float | None
    lost: int
    why: str = ""

    @property
    def took_s(self) -> float | None:
        return None if self.back is None else self.back - self.ended


def find_recovery(log: RequestLog, good: NDArray[np.bool_], began: float, ended: float) -> Recovery:
    """The recovery in one phase's log; `good` bool [n of the load] by the SLO, `began` and `ended` of the fault in the phase's seconds."""
    back, why = _recovery_time(log, good, began, ended)
    over_before = log.ended < began  # NaN, a request that never ended, is not
    lost = log.due & (log.error > 0) & ~over_before & (log.scheduled < (np.inf if back is None else back))
    return Recovery(began, ended, back, int(lost.sum()), why)


def _recovery_time(log: RequestLog, good: NDArray[np.bool_], began: float, ended: float) -> tuple[float | None, str]:
    before = log.due & (log.ended < began)
    share = float(good[before].mean()) if before.any() else 1.0
    if share < _SERVED:
        return None, f"only {share:.0%} of the requests before the fault were good: no service to recover"
    order = np.flatnonzero(log.due & (log.scheduled >= ended))
    order = order[np.argsort(log.scheduled[order], kind="stable")]
    at, fine = log.scheduled[order], good[order]
    n = len(order)
    up_to = np.concatenate([[0], np.cumsum(fine)])
    missed_before = int(before.sum()) - int(good[before].sum())
    flickers = 0
    for i in np.flatnonzero(fine).tolist():
        end = max(int(np.searchsorted(at, at[i] + WINDOW_S, side="right")), i + WINDOW_REQUESTS)
        if end > n or at[i] + WINDOW_S > log.load.duration_s:
            break
        if up_to[end] - up_to[i] >= share * (end - i) - 1e-9:
            missed, missed_after = i - int(up_to[i]), n - i - int(up_to[n] - up_to[i])
            as_good = is_as_good(missed_before, int(before.sum()), missed_after, n - i)
            if not as_good or (missed and not is_shown(missed, i, missed_after, n - i, n // WINDOW_REQUESTS)):
                flickers += 1
                continue
            # The first request after the fault was good already: then the fault was over for the clients when it ended.
            return (float(ended) if i == 0 else float(at[i])), ""
    if flickers:
        missed = n - int(up_to[n])
        return None, (
            f"not back by the end of the phase, {log.load.duration_s - ended:.3g}s after the fault: {missed} of {n} requests since then were missed, "
            "and no good window was followed by enough good time"
        )
    return None, f"no window of {WINDOW_S:g}s and {WINDOW_REQUESTS} requests after the fault was as good as before it ({share:.0%} good)"


def slice_log(log: RequestLog, name: LoadPhase, start_s: float, end_s: float) -> RequestLog:
    """The requests of a log that were scheduled in [start_s, end_s), as a log of their own whose time begins at `start_s`."""
    load = log.load
    chosen = np.flatnonzero(log.due & (log.scheduled >= start_s) & (log.scheduled < end_s))
    tokens = np.repeat(np.arange(load.n), load.output_tokens)
    scheduled = log.scheduled[chosen] - start_s
    columns = {name: getattr(log, name)[chosen] for name in ("due", "error", "received", "usage", "reasoned", "unsent", "server_s")}
    columns |= {name: getattr(log, name)[chosen] - start_s for name in ("dispatched", "ended", "content_at")}
    return replace(
        log,
        load=PhaseLoad(
            name,
            end_s - start_s,
            scheduled,
            load.input_tokens[chosen],
            load.output_tokens[chosen],
            # By now the times say who waited for whom.
            np.full(len(chosen), -1, np.int32),
        ),
        scheduled=scheduled,
        **columns,
        token_at=log.token_at[np.isin(tokens, chosen)] - start_s,
        began=log.began + start_s,
        details={new: log.details[old] for new, old in enumerate(chosen.tolist()) if old in log.details},
        replica=None if log.replica is None else log.replica[chosen],
        # CPU time is known of the whole phase only.
        cpu_s=(),
    )


Managed = ManagedServers[Any]
_POLL_S = 0.005
_STARTED_WITHIN_S = 1.0
_GIVEN_UP = [ERROR_CLASSES.index(name) + 1 for name in ("timeout", "cancelled", "wrong_output")]


@dataclass
class _Injection:
    """Moments in monotonic seconds; `rows`: the server's recovery."""

    began: float = float("nan")
    ended: float = float("nan")
    events: list[tuple[str, float]] = field(default_factory=list)
    rows: list[MetricRow] = field(default_factory=list)


def _kill(served: Managed, injection: _Injection) -> None:
    injection.began = injection.ended = served.servers[0].kill()
    injection.events.append(("fault_injected", injection.began))
    start = served.servers[0].restart()
    injection.events.append(("server_restarted", start.ready))
    injection.rows += [
        metric_row("time_to_ready", start.time_to_ready_s, 1, phase="fault"),
        metric_row("model_load_time", start.model_load_s, int(start.model_load_s is not None), phase="fault"),
    ]


class _FaultInjector:
    """Kills the server at its moment in a separate thread: the client is busy with the load."""

    def __init__(self, served: Managed, at_s: float) -> None:
        self.served, self.at_s = served, at_s
        self.injection = _Injection()
        self.underway = False
        self.failure: BaseException | None = None
        self._began: float | None = None
        self._over = threading.Event()
        # A daemon: an interrupt must not wait for a server to come back.
        self._thread = threading.Thread(target=self._run, name="fault", daemon=True)

    def __enter__(self) -> _FaultInjector:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._over.set()
        # After an interrupt nobody waits for the server to be ready, only until its process is known to those who will end it.
        self._thread.join(None if kind is None else _STARTED_WITHIN_S)

    def watch(self, log: RequestLog) -> bool:
        """Give the thread the phase's begin; True, which ends the phase, once the injection has failed."""
        if self._began is None and np.isfinite(log.began):
            self._began = log.began
        return self.failure is not None

    def running(self) -> bool:
        return self.failure is None and (self.underway or self.served.running())

    def _run(self) -> None:
        while self._began is None or time.monotonic() < self._began + self.at_s:
            left = _POLL_S if self._began is None else self._began + self.at_s - time.monotonic()
            if self._over.wait(max(0.0, left)):
                return
        self.underway = True
        try:
            _kill(self.served, self.injection)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that waits for it raises it
            self.failure = error
        finally:
            self.underway = False


def measure_fault(driver: Driver, spec: FaultPhaseSpec, load: PhaseLoad, prompts: Sequence[Prompt]) -> None:
    """Drive the phase, inject its fault, and record both parts: `fault` until the service is back, `recovery` from then on.

    Raises TrialFailed as a server's start does if it does not come back, "server_error" if it ends by itself, and "bad_declaration" if
    the load ends before the fault."""
    record, served = driver.record, driver.served
    require_running(served, "before fault")
    written = journal.position(served.journal_folder) if isinstance(served, ManagedTriton) else {}
    record.event("fault_started")
    with served.beside("fault") as sampler, record.watch.phase("fault"):
        log, injection = _drive_with_fault(driver, spec, load, prompts, sampler.sample)
    record.event("fault_ended")
    record.logs.append(log)
    record.result.telemetry += sampler.telemetry()
    require_running(served, format_outcome(log))
    if np.isnan(injection.began):
        raise TrialFailed(
            "bad_declaration",
            f"the last request of phase fault ended before {spec.inject} at {spec.at:g}s; expected arrivals beyond phases.fault.at",
        )
    recovery = find_recovery(log, within_slo(log, record.workload.slo), injection.began - log.began, injection.ended - log.began)
    for name, at in injection.events:
        record.event(name, at)
    if recovery.back is not None:
        record.event("recovered", log.began + recovery.back)
    record.result.metrics += [
        *injection.rows,
        metric_row("time_to_recover", recovery.took_s, int(recovery.took_s is not None), phase="fault", reason=recovery.why or None),
        metric_row("requests_lost", recovery.lost, log.n, phase="fault"),
    ]
    _record_parts(record, log, recovery, spec.duration)
    limited = validity.client_limited(log, record.trial.validity) if spec.inject == "overload" else None
    book = JournalSummary.of(served, written, log)
    unrecovered = degraded("no_recovery", f"no recovery: {recovery.why}") if recovery.back is None else None
    record.result.judgements += present(limited, book.differs(log) if book else None, unrecovered)
    record.result.evidence.append(_evidence(record, spec, log, recovery, book))
    record.done_s += spec.duration


def _drive_with_fault(
    driver: Driver, spec: FaultPhaseSpec, load: PhaseLoad, prompts: Sequence[Prompt], sample: Callable[[], None]
) -> tuple[RequestLog, _Injection]:
    served = driver.served
    if spec.inject == "server_kill":
        assert isinstance(served, ManagedServers), "only a managed server can be faulted"
        with _FaultInjector(served, spec.at) as deed:
            log = driver.drive(load, prompts, sample=sample, stop=deed.watch, running=deed.running)
        if isinstance(deed.failure, TrialFailed):
            driver.record.logs.append(log)
            raise TrialFailed(deed.failure.failure_class, f"after {spec.inject}: {deed.failure.detail}") from deed.failure
        if deed.failure is not None:
            raise deed.failure
        return log, deed.injection
    assert spec.lasts is not None
    log = driver.drive(load, prompts, sample=sample)
    began, ended = log.began + spec.at, log.began + spec.at + spec.lasts
    return log, _Injection(began, ended, [("fault_injected", began), ("fault_over", ended)])


def _record_parts(record: TrialRecord, log: RequestLog, recovery: Recovery, duration_s: float) -> None:
    back = duration_s if recovery.back is None else recovery.back
    for part in (slice_log(log, "fault", 0.0, back), slice_log(log, "recovery", back, duration_s)):
        if part.n:
            # Counters of a server that was killed are gone, and those of one that was not cannot be divided.
            record.result.metrics += noted_lengths(metrics_of(part, record.workload.slo, None), record.workload.requests)
            record.result.telemetry += length_telemetry(part, record.workload.requests)
            record.result.stages += stages_of(part, None)


@dataclass(frozen=True)
class JournalSummary:
    """The model processes' journal: requests that each incarnation began, and all that were answered."""

    started: tuple[int, ...]
    finished: frozenset[int]

    @classmethod
    def of(cls, served: ServerUnderTest, written: journal.Position, log: RequestLog) -> JournalSummary | None:
        """Since `written`; None where the model keeps no journal."""
        if not isinstance(served, ManagedTriton):
            return None
        entries = journal.read(served.journal_folder, written)
        if not entries:
            return None
        return cls(tuple(len(item.started) for item in entries), frozenset(n for item in entries for n in item.finished if n < log.load.n))

    def differs(self, log: RequestLog) -> TrialJudgement | None:
        """Client and server disagree on finished requests. One that the client gave up may have been answered."""
        ok = set(np.flatnonzero(log.ok).tolist())
        given_up = set(np.flatnonzero(np.isin(log.error, _GIVEN_UP)).tolist())
        unseen, unheard = ok - self.finished, self.finished - ok - given_up
        if not unseen and not unheard:
            return None
        detail = (
            f"the client finished {len(ok)} requests in {log.load.name}, the server answered {len(self.finished)}: "
            f"{len(unheard)} answers did not arrive, {len(unseen)} have no record on the server"
        )
        return degraded("counts_differ", detail)


def _evidence(record: TrialRecord, spec: FaultPhaseSpec, log: RequestLog, recovery: Recovery, book: JournalSummary | None) -> EvidenceFile:
    """`fault.json`: seconds from the start of the phase; counts by the client and, where its model wrote them down, by the server."""
    content = {
        "inject": spec.inject,
        "began_s": recovery.began,
        "ended_s": recovery.ended,
        "back_s": recovery.back,
        "no_recovery": recovery.why or None,
        "requests": log.n,
        "finished": log.finished,
        "failed": log.n - log.finished,
        "errors": log.errors(),
        "lost": recovery.lost,
        "server_started_by_incarnation": list(book.started) if book else None,
        "server_finished": len(book.finished) if book else None,
        "server_never_finished": log.n - len(book.finished) if book else None,
    }
    return EvidenceFile.of_json("fault", content, record.workdir)
