"""A typed exception for each failure class, so that retry policies, logs and people can tell them apart."""

from __future__ import annotations

from plumbline.results import FAILED_AS_DECLARED, FailureClass, LaunchRecord, Validity


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

_AGAIN: dict[FailureClass, tuple[bool, str]] = {
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
RETRIED: frozenset[FailureClass] = frozenset(name for name, (again, _) in _AGAIN.items() if again)
"""Classes that are worth another try. Every try is recorded as an attempt of its own."""


class InterruptedAsDeclared(Interrupted):
    """The workload's own fault came more often than training may be started again: a result, and the same in the next try."""


def worth_another(record: LaunchRecord, validity: Validity | None) -> bool:
    """Whether another try may end differently. `validity`: of the trial's document, None without one."""
    return record.failure_class in RETRIED and not (record.failure_class == "interrupted" and _as_declared(validity))


def _as_declared(validity: Validity | None) -> bool:
    return validity is not None and any(reason.code == FAILED_AS_DECLARED for reason in validity.reasons)


def raise_for(record: LaunchRecord, validity: Validity | None) -> None:
    """Raise the exception of the record's failure class; nothing if the launch did not fail. `validity`: as of `worth_another`."""
    if record.failure_class == "interrupted" and _as_declared(validity):
        raise InterruptedAsDeclared(record.failure_detail or record.failure_class)
    if record.failure_class is not None:
        raise EXCEPTIONS[record.failure_class](record.failure_detail or record.failure_class)
