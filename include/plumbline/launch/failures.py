"""Failure classes: a typed exception for each, which ones are retried, and the class that an exit status means."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Literal

from plumbline.results import FAILED_AS_DECLARED, FailureClass, InvalidResult, LaunchRecord, ResultStore, Validity, log_transport


class TrialFailure(Exception):
    """A trial failed. It is recorded all the same: a failed launch is data about its provider."""

    failure_class: FailureClass


class QuotaExceeded(TrialFailure):
    failure_class = "quota_exceeded"


class InsufficientCapacity(TrialFailure):
    failure_class = "insufficient_capacity"


class ImageError(TrialFailure):
    failure_class = "image_error"


class LaunchTimeout(TrialFailure):
    failure_class = "launch_timeout"


class Interrupted(TrialFailure):
    failure_class = "interrupted"


class OutOfMemory(TrialFailure):
    failure_class = "out_of_memory"


class WrongHardware(TrialFailure):
    failure_class = "wrong_hardware"


class HarnessError(TrialFailure):
    failure_class = "harness_error"


class ServerError(TrialFailure):
    failure_class = "server_error"


class TrialTimeout(TrialFailure):
    failure_class = "timeout"


class Unreachable(TrialFailure):
    failure_class = "unreachable"


class BadDeclaration(TrialFailure):
    failure_class = "bad_declaration"


EXCEPTIONS: dict[FailureClass, type[TrialFailure]] = {kind.failure_class: kind for kind in TrialFailure.__subclasses__()}

_RETRY_REASONS: dict[FailureClass, tuple[bool, str]] = {
    "interrupted": (True, "somebody else took the place away (preemption, eviction, a killed process): the next one may last"),
    "insufficient_capacity": (True, "capacity comes and goes within minutes"),
    "launch_timeout": (True, "a slow node, pull or queue: the next try often meets a faster one"),
    "unreachable": (True, "networks and API servers recover"),
    "quota_exceeded": (True, "others who share the quota give it back; if nobody does, a person must raise it"),
    "image_error": (False, "the same reference gives the same image"),
    "out_of_memory": (False, "the same workload needs the same memory, and the provider's memory is what is measured"),
    "wrong_hardware": (False, "the declaration or the provider must change first"),
    "harness_error": (False, "a bug: the same input meets it again"),
    "server_error": (False, "how a server fails under its load is a result, not noise"),
    "timeout": (False, "too slow is a result; a second try would cost the same again"),
    "bad_declaration": (False, "the declaration must change first"),
}
RETRIED: frozenset[FailureClass] = frozenset(name for name, (again, _) in _RETRY_REASONS.items() if again)
"""Classes that are worth another try. Every try is recorded as an attempt of its own."""


class DeclaredInterruption(Interrupted):
    """The workload's own fault came more often than training may be started again: a result, and the same in the next try."""


def is_retryable(record: LaunchRecord, validity: Validity | None) -> bool:
    """Whether another try may end differently. `validity`: of the trial's document, None without one."""
    return record.failure_class in RETRIED and not (record.failure_class == "interrupted" and _as_declared(validity))


def _as_declared(validity: Validity | None) -> bool:
    return validity is not None and any(reason.code == FAILED_AS_DECLARED for reason in validity.reasons)


def raise_failure(record: LaunchRecord, validity: Validity | None) -> None:
    """Raise the exception of the record's failure class; nothing if the launch did not fail. `validity`: as of `worth_another`."""
    if record.failure_class == "interrupted" and _as_declared(validity):
        raise DeclaredInterruption(record.failure_detail or record.failure_class)
    if record.failure_class is not None:
        raise EXCEPTIONS[record.failure_class](record.failure_detail or record.failure_class)


DONE, STORE_FAILED, UNUSABLE_INPUT, FAILED = 0, 1, 2, 3
"""Exit statuses of `python -m plumbline.harness run`; 1 also of Python itself, when it dies of an exception."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_QUOTED_LINES = 5
_STORE_UNREACHABLE = re.compile("the result document could not be stored|: nothing was measured|: the specification could not be read")
"""How the harness says so; exit status 1 alone is also that of any exception."""
_PRINTED_RESULT = re.compile(rf"{log_transport.MARK} |[A-Za-z0-9+/=]{{200,}}$")
"""A line of a printed result, or the end of one that a container's status cut."""

Outcome = tuple[FailureClass | None, str | None]


@dataclass(frozen=True)
class ProcessEnd:
    """How it ended: `code` as in subprocess (negative: a signal); `stopped` if it was we who ended it, and why."""

    code: int
    stopped: Literal["timeout", "memory"] | None
    detail: str


def trial_outcome(ended: ProcessEnd, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    """Failure class and detail of the attempt in `folder`; (None, None) if it left a document that holds and did not fail."""
    if ended.stopped is not None:
        return ("out_of_memory" if ended.stopped == "memory" else "timeout"), ended.detail
    if ended.code in (DONE, FAILED):
        return _document_outcome(ended.code, store, folder, log_tail)
    said = last_lines(log_tail)
    if ended.code == STORE_FAILED and _STORE_UNREACHABLE.search(log_tail):
        if _has_result(store, folder):  # the harness printed it, and the launcher brought it home
            return _document_outcome(None, store, folder, log_tail)
        return "unreachable", f"the result store did not take the document: {said}"
    if ended.code == UNUSABLE_INPUT:
        return "bad_declaration", f"the harness could not use what it was given: {said}"
    if ended.code < 0:
        name = _signal_name(-ended.code)
        if -ended.code in _FROM_OUTSIDE:
            return "interrupted", f"the harness was ended by {name}, which the launcher did not send"
        return "harness_error", f"the harness was ended by {name}: {said}"
    return "harness_error", f"the harness ended with exit status {ended.code}: {said}"


def _has_result(store: ResultStore, folder: str) -> bool:
    try:
        return store.exists(f"{folder}/result.json")
    except OSError:
        return False


def _document_outcome(code: int | None, store: ResultStore, folder: str, log_tail: str) -> Outcome:
    try:
        validity = store.document(folder).validity
    except FileNotFoundError:
        return "harness_error", f"the harness ended with exit status {code} but left no result document: {last_lines(log_tail)}"
    except InvalidResult as error:
        return "harness_error", f"the harness's result document cannot be used: {error}"
    if validity.failure_class is not None:
        return validity.failure_class, "; ".join(reason.detail for reason in validity.reasons)
    if code == FAILED:
        return "harness_error", f"the harness ended with exit status {code} (failed), but its document says {validity.status}"
    return None, None


def last_lines(log_tail: str) -> str:
    """The last few lines of a log's tail, as one; without a result that was printed."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip() and not _PRINTED_RESULT.match(line.strip())]
    return " | ".join(lines[-_QUOTED_LINES:]) or "it printed nothing"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
