"""Failure classes: a typed exception for each, which ones are retried, and the class that an exit status means."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Literal

from plumbline.harness.hardware_faults import find_hardware_fault
from plumbline.results import FAILED_AS_DECLARED, FailureClass, InvalidResult, LaunchRecord, ResultStore, Validity, log_transport


class TrialFailure(Exception):
    """A trial failed. Its failure is recorded too: it is data about the provider."""

    failure_class: FailureClass


class Interrupted(TrialFailure):
    failure_class = "interrupted"


class Stopped(Interrupted, KeyboardInterrupt):
    """A signal asked the process to stop. An event loop lets a KeyboardInterrupt through, and swallows another exception of a callback."""


def _kind(name: str, failure_class: FailureClass) -> type[TrialFailure]:
    return type(name, (TrialFailure,), {"failure_class": failure_class, "__module__": __name__})


QuotaExceeded = _kind("QuotaExceeded", "quota_exceeded")
InsufficientCapacity = _kind("InsufficientCapacity", "insufficient_capacity")
ImageError = _kind("ImageError", "image_error")
LaunchTimeout = _kind("LaunchTimeout", "launch_timeout")
OutOfMemory = _kind("OutOfMemory", "out_of_memory")
WrongHardware = _kind("WrongHardware", "wrong_hardware")
ProviderFault = _kind("ProviderFault", "provider_fault")
HarnessError = _kind("HarnessError", "harness_error")
ServerError = _kind("ServerError", "server_error")
TrialTimeout = _kind("TrialTimeout", "timeout")
Unreachable = _kind("Unreachable", "unreachable")
BadDeclaration = _kind("BadDeclaration", "bad_declaration")
EXCEPTIONS: dict[FailureClass, type[TrialFailure]] = {kind.failure_class: kind for kind in TrialFailure.__subclasses__()}

NODES_FULL = "every node that matches lacked free GPUs"
"""What a launch's record says where all nodes that fit were in use."""


UNSCALED = "no more servers came because the trial's scaler could not work"
"""How a launch's record begins where a scaler of ours, and not the provider, kept a service from scaling out."""


class ApiRefused(Exception):
    """A trial's place refused a request, and a retry would not change that. `status`: the HTTP status, 0 without one; `detail`: its message."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"HTTP {status}: {detail}" if status else detail)
        self.status, self.detail = status, detail


class RequestFailed(Exception):
    """A request that a retry may repair. `status`: the HTTP status of an answer; `retry_after_s`: least seconds until the retry."""

    def __init__(self, detail: str, status: int | None = None, retry_after_s: float = 0.0) -> None:
        super().__init__(detail)
        self.status, self.retry_after_s = status, retry_after_s


class NoConnection(RequestFailed):
    """This process has no Airflow connection of that name, although all places that may hold it answered."""


_HOST_REFUSED = re.compile(r"(?:HTTP|error) 5\d\d|Errno (?:104|111)\b|refused|reset", re.IGNORECASE)


def is_refusal_of_host(detail: str) -> bool:
    """Whether the other host itself refused, broke off or failed; a silent network may be ours."""
    return _HOST_REFUSED.search(detail) is not None


class InMaintenance(Exception):
    """What a check asks for is out of service on purpose: neither up nor down."""


RETRIED: frozenset[FailureClass] = frozenset(
    {
        "interrupted",  # preempted, evicted or killed: the next node may last
        "insufficient_capacity",  # capacity comes and goes within minutes
        "provider_fault",  # the next node may be sound
        "launch_timeout",  # a slow node, pull or queue: the next try often meets a faster one
        "unreachable",  # networks and API servers recover
        "quota_exceeded",  # others who share the quota release it
    }
)
"""Classes that a retry may not meet again. The trial itself causes the others, or they need a changed declaration or provider."""


class UndefinedConnection(BadDeclaration):  # type: ignore[valid-type,misc]  # made by `_kind`
    """Airflow has no connection of that name; all places that may hold it answered."""


class DeclaredInterruption(Interrupted):
    """The workload's own fault exceeded its restarts: a result, and the same in a retry."""


def is_retryable(record: LaunchRecord, validity: Validity | None) -> bool:
    """Whether a retry may end differently. `validity`: that of the trial's document, None without one."""
    return record.failure_class in RETRIED and not (record.failure_class == "interrupted" and _as_declared(validity))


def is_usable(validity: Validity | None) -> bool:
    """Whether the validity is that of a measurement, whatever became of its launch afterwards."""
    return validity is not None and validity.status not in ("failed", "missing")


def _as_declared(validity: Validity | None) -> bool:
    return validity is not None and any(reason.code == FAILED_AS_DECLARED for reason in validity.reasons)


def raise_failure(record: LaunchRecord, validity: Validity | None) -> None:
    """Raise the exception of the record's failure class, if it has one. `validity`: of the trial's document, None without one."""
    if record.failure_class == "interrupted" and _as_declared(validity):
        raise DeclaredInterruption(record.failure_detail or record.failure_class)
    if record.failure_class is not None:
        raise EXCEPTIONS[record.failure_class](record.failure_detail or record.failure_class)


DONE, STORE_FAILED, UNUSABLE_INPUT, FAILED = 0, 1, 2, 3
"""Exit statuses of `python -m plumbline.harness run`; an uncaught exception exits with 1 too."""

EXTERNAL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_QUOTED_LINES = 5
_STORE_UNREACHABLE = re.compile("the result document could not be stored|: nothing was measured|: the specification could not be read")
"""Messages of the harness: exit status 1 alone does not show that the store was unavailable."""
_PRINTED_RESULT = re.compile(rf"{log_transport.MARK} |[A-Za-z0-9+/=]{{200,}}$")
"""A line of a printed result, or its end where a container's status truncates it."""

Outcome = tuple[FailureClass | None, str | None]


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a trial's process. `code` is negative for a signal, as in subprocess; `stopped`: why the launcher ended it, if it did."""

    code: int
    stopped: Literal["timeout", "memory"] | None
    detail: str


def trial_outcome(ended: ProcessEnd, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    """Failure class and detail of the attempt in `folder`; (None, None) if it left a valid document that did not fail."""
    if ended.stopped is not None:
        return ("out_of_memory" if ended.stopped == "memory" else "timeout"), ended.detail
    if ended.code in (DONE, FAILED):
        return _document_outcome(ended.code, store, folder, log_tail)
    log = last_lines(log_tail)
    if ended.code == STORE_FAILED and _STORE_UNREACHABLE.search(log_tail):
        if _has_result(store, folder):  # the harness printed it, and the launcher stored it
            return _document_outcome(None, store, folder, log_tail)
        return "unreachable", f"the document could not be stored: {log}"
    if ended.code == UNUSABLE_INPUT:
        return "bad_declaration", f"the harness rejected its input: {log}"
    if ended.code < 0:
        name = signal_name(-ended.code) or f"signal {-ended.code}"
        if -ended.code in EXTERNAL_SIGNALS:
            return "interrupted", f"the harness was ended by {name}, which the launcher did not send"
        return crash_outcome(f"the harness died of {name}: {log}", log_tail)
    return crash_outcome(f"the harness ended with exit status {ended.code}: {log}", log_tail)


def crash_outcome(detail: str, log_tail: str) -> tuple[FailureClass, str]:
    """Class and detail of a harness that ended without a document: provider_fault if its log names a hardware fault, else harness_error."""
    fault = find_hardware_fault(log_tail)
    return ("harness_error", detail) if fault is None else ("provider_fault", f"{fault[0]}: {detail}")


def _has_result(store: ResultStore, folder: str) -> bool:
    try:
        return store.exists(f"{folder}/result.json")
    except OSError:
        return False


def _document_outcome(code: int | None, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    try:
        validity = store.document(folder).validity
    except FileNotFoundError:
        return "harness_error", f"the harness ended with exit status {code} without a result document: {last_lines(log_tail)}"
    except InvalidResult as error:
        return "harness_error", f"the result document is invalid: {error}"
    if validity.failure_class is not None:
        return validity.failure_class, "; ".join(reason.detail for reason in validity.reasons)
    if code == FAILED:
        return "harness_error", f"the harness ended with exit status {code} (failed), but its document is {validity.status}"
    return None, None


def last_lines(log_tail: str) -> str:
    """The last lines of a log's tail, joined, without a printed result."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip() and not _PRINTED_RESULT.match(line.strip())]
    return " | ".join(lines[-_QUOTED_LINES:]) or "no output"


def signal_name(number: int) -> str | None:
    """The signal's name, such as SIGKILL; None for an unknown number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
