"""Failure class of a launch, from the state of its pods and the result document. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from plumbline.launch.cluster.observe.observation import (
    CONTAINER,
    LaunchObservation,
    Row,
    StartFailure,
    StopCause,
    StopReason,
    describe_pod,
    has_ended,
    has_started,
    has_succeeded,
    is_scheduled,
    name_of,
    rank_of,
    start_failure,
    terminated,
    unscheduled_reason,
)
from plumbline.launch.cluster.observe.pod_records import deletion_requested_at, ended_at, events_of, first_seen, parse_moment, pod_timeline
from plumbline.launch.cluster.observe.scheduling import judge_unscheduled
from plumbline.launch.cluster.observe.start_failures import (
    CREATION_FAILURES,
    failed_beside,
    judge_creation,
    judge_rejection,
    judge_start,
    origin_of,
)
from plumbline.launch.failures import (
    EXTERNAL_SIGNALS,
    FAILED,
    STORE_FAILED,
    UNUSABLE_INPUT,
    Outcome,
    crash_outcome,
    last_lines,
    signal_name,
)
from plumbline.results import FailureClass, Validity

# What became of a pod as its status, a condition or an event names it: class, and what to look at.
_Known = tuple[FailureClass, str]
_RECLAIMED = "the node was reclaimed; a retry may succeed"
_REASONS: dict[str, _Known] = {
    "DeadlineExceeded": ("timeout", "it exceeded its activeDeadlineSeconds: compare the provider's timeout with what the workload needs"),
    "Preempting": ("interrupted", f"the kubelet preempted it for a critical pod: {_RECLAIMED}"),
    "NodeLost": ("interrupted", "its node stopped answering"),
    "NodeShutdown": ("interrupted", f"its node was shut down, as spot instances are: {_RECLAIMED}"),
    "Shutdown": ("interrupted", f"its node was shut down, as spot instances are: {_RECLAIMED}"),
    "Terminated": ("interrupted", f"its node was shut down, as spot instances are: {_RECLAIMED}"),
    "PreemptionByScheduler": ("interrupted", f"a pod of higher priority preempted it; see launcher.priority_class: {_RECLAIMED}"),
    "DeletionByTaintManager": ("interrupted", "its node got a NoExecute taint: the provider drains or repairs the node"),
    "EvictionByEvictionAPI": ("interrupted", "its node was drained or removed by an autoscaler"),
    "DeletionByPodGC": ("interrupted", "its node no longer exists"),
    "TerminationByKubelet": ("interrupted", f"its node ran out of a resource or was shut down: {_RECLAIMED}"),
    "SysctlForbidden": ("bad_declaration", "the node does not allow a sysctl that the pod requests"),
    "AppArmor": ("bad_declaration", "the node lacks the AppArmor profile that the pod requests"),
}
_EVICTED: _Known = ("interrupted", f"its node ran out of a resource: {_RECLAIMED}")
_EXCEEDED: _Known = (
    "bad_declaration",
    "it exceeded a declared limit: raise launcher.resources.ephemeral_storage or shared_memory",
)
_OWN_LIMIT = re.compile(r"exceeds the (total )?limit|exceeded its local ephemeral storage limit", re.IGNORECASE)
_EVENTS = {
    "TaintManagerEviction": _REASONS["DeletionByTaintManager"][1],
    "Preempted": _REASONS["PreemptionByScheduler"][1],
    "NodeNotReady": _REASONS["NodeLost"][1],
}
"""What to check, by the event with which the cluster announces that it deletes a pod."""
_OOM = re.compile(r"oom[- ]?kill|out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class PodVerdict:
    """`at`: when the pod failed, if known. `reported`: the cluster states the cause; otherwise only an exit code shows it. `exit_code`: of the
    harness."""

    failure_class: FailureClass
    detail: str
    at: datetime | None
    reported: bool
    exit_code: int | None = None


def pod_verdict(pod: Row, events: Sequence[Row], *, gone: bool, own: Collection[str] = ()) -> PodVerdict | None:
    """Why the pod failed; None if it succeeded or has not failed yet. `events`: about the pod. `gone`: deleted by someone else. `own`: see
    LaunchObservation."""
    if has_succeeded(pod):
        return None
    for evidence in (_by_status, _by_condition, _by_memory):
        if (verdict := evidence(pod, events)) is not None:
            return verdict
    if (deleted := _deleted(pod, events, gone=gone)) is not None:
        return deleted
    wrong = start_failure(pod)
    if wrong is not None and not has_ended(pod):
        failure, text = _start(wrong, " ".join(str(event.get("message")) for event in events if event.get("reason") == "Failed"), own)
        return _reported(pod, failure, text, None)
    return _by_exit(pod, own) if has_ended(pod) else None


def _start(wrong: StartFailure, cause: str, own: Collection[str]) -> tuple[FailureClass, str]:
    failure, hint = judge_start(wrong, cause, {CONTAINER, *own})
    origin = origin_of(wrong.container, own)
    what = f" its container {wrong.container} ({origin})" if origin else ""
    return failure, f"cannot start{what}: {wrong.reason}: {wrong.message}; {hint}"


def pod_and_node(pod: Row) -> str:
    node = (pod.get("spec") or {}).get("nodeName")
    return f"pod {name_of(pod)}" + (f" on {node}" if node else "")


def _by_status(pod: Row, events: Sequence[Row]) -> PodVerdict | None:
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip()
    if reason == "Evicted":
        known = _EXCEEDED if _OWN_LIMIT.search(message) else _EVICTED
    elif (rejected := judge_rejection(reason, message, ran=_has_run(pod, events))) is not None:
        known = rejected
    elif reason in _REASONS:
        known = _REASONS[reason]
    else:
        return None
    at = next((parse_moment(first_seen(event)) for event in events if event.get("reason") == reason), None)
    return _reported(pod, known[0], f"ended as {reason}: {message or 'no message'}; {known[1]}", at)


def _has_run(pod: Row, events: Sequence[Row]) -> bool:
    return any(event.name in ("started", "ready") for event in pod_timeline(pod, events))


def _by_condition(pod: Row, _: Sequence[Row]) -> PodVerdict | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        kind, reason = condition.get("type"), str(condition.get("reason") or "")
        if kind not in ("DisruptionTarget", "TerminationTarget") or condition.get("status") != "True":
            continue
        # TerminationTarget is what Kueue sets on pods whose quota it takes back.
        hint = (
            _REASONS.get(reason, ("interrupted", _RECLAIMED))[1]
            if kind == "DisruptionTarget"
            else f"Kueue reclaimed its quota: {_RECLAIMED}"
        )
        message = str(condition.get("message") or "no message").strip()
        return _reported(pod, "interrupted", f"was ended ({reason}): {message}; {hint}", parse_moment(condition.get("lastTransitionTime")))
    return None


def _by_memory(pod: Row, events: Sequence[Row]) -> PodVerdict | None:
    ended = terminated(pod)
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    oom_event = any(_OOM.search(f"{event.get('reason')} {event.get('message')}") for event in events)
    never_began = ended.get("reason") in ("StartError", "RunContainerError") and _OOM.search(message)
    if ended.get("reason") == "OOMKilled" or (code == 128 + signal.SIGKILL and oom_event) or never_began:
        limit = next((memory for container in pod["spec"].get("containers") or () if (memory := _memory(container))), "none")
        text = f"exceeded its memory limit ({limit}) and was killed (OOMKilled, exit code {code}); see launcher.resources.memory"
        return _reported(pod, "out_of_memory", text, ended_at(pod))
    return None


def _memory(container: Row) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get("memory") or "")


def _deleted(pod: Row, events: Sequence[Row], *, gone: bool) -> PodVerdict | None:
    """Of a pod that was deleted before it ended: its exit code then shows only how the harness reacted."""
    requested_at, ended = deletion_requested_at(pod), ended_at(pod)
    deleted_first = requested_at is not None and (ended is None or requested_at <= ended)
    if not deleted_first and not (gone and not has_ended(pod)):
        return None
    for event in events:  # clusters before 1.26 announce their own deletions only by an event
        if (hint := _EVENTS.get(str(event.get("reason")))) is not None:
            message = f"{event['reason']}: {str(event.get('message') or 'no message').strip()}"
            return _reported(
                pod, "interrupted", f"was deleted by the cluster: {message}; {hint}", requested_at or parse_moment(first_seen(event))
            )
    if requested_at is not None:
        text = f"was deleted at {requested_at:%H:%M:%S} UTC, not by Plumbline unless its Airflow task was ended then; the cluster's audit log names the user"
    else:
        text = f"is gone; its last known state: {describe_pod(pod)}. It was deleted, or its node no longer exists"
    return _reported(pod, "interrupted", text, requested_at)


def _by_exit(pod: Row, own: Collection[str]) -> PodVerdict:
    ended, beside = terminated(pod), failed_beside(pod, own)
    if "exitCode" not in ended and beside is not None:
        # Ours failed as it was declared; nobody knows whose an injected one is.
        return _reported(pod, "bad_declaration" if beside[1] else "launch_timeout", f"did not start the trial: {beside[0]}", None)
    if "exitCode" not in ended:
        status = pod.get("status") or {}
        reason = f"{status.get('reason') or 'no reason'}: {status.get('message') or 'no message'}"
        return _reported(pod, "interrupted", f"failed without an exit code ({reason}): its node may have lost it", None)
    code, message = int(ended["exitCode"]), str(ended.get("message") or "")
    if ended.get("reason") in CREATION_FAILURES:
        failure, hint = judge_creation(message, ("launch_timeout", "its node could not start it; another one may"))
        return _reported(pod, failure, f"could not be started ({ended['reason']}): {message}; {hint}", ended_at(pod))
    if ended.get("reason") == "ContainerStatusUnknown":
        return _reported(pod, "interrupted", f"was lost by its kubelet: {message}", ended_at(pod))
    if code == 0:
        return _reported(pod, "interrupted", f"failed though its harness ended with exit code 0: {_RECLAIMED}", ended_at(pod))
    failure, text = _exit_meaning(code, message)
    text += f"; before it {beside[0]}" if beside is not None else ""
    return PodVerdict(failure, f"{pod_and_node(pod)} {text}", ended_at(pod), reported=False, exit_code=code)


def _exit_meaning(code: int, message: str) -> tuple[FailureClass, str]:
    """Of an exit code of the harness; `message`: the end of its log."""
    log = last_lines(message)
    if code == UNUSABLE_INPUT:
        return "bad_declaration", f"ended with exit code {code}: the harness rejected its input: {log}"
    if code == STORE_FAILED and "No module named" in message:
        return "image_error", f"ended with exit code {code}: the image lacks a part of the harness: {log}"
    if code == STORE_FAILED and "Traceback" not in message:
        return "unreachable", f"ended with exit code {code}: the result store did not answer: {log}"
    if code == FAILED:
        return "harness_error", f"ended with exit code {code} (failed): {log}"
    if (name := signal_name(code - 128)) is None:
        return crash_outcome(f"ended with exit code {code}: {log}", message)
    if code - 128 in EXTERNAL_SIGNALS:
        return "interrupted", f"was ended by {name} (exit code {code}), which neither its memory nor the cluster explains: {log}"
    return crash_outcome(f"died of {name} (exit code {code}): {log}", message)


def _reported(pod: Row, failure: FailureClass, text: str, at: datetime | None) -> PodVerdict:
    return PodVerdict(failure, f"{pod_and_node(pod)} {text}", at, reported=True, exit_code=terminated(pod).get("exitCode"))


# A valid document is a result, whatever happened to the pods after it was written. Otherwise the first of these counts: why we stopped the
# launch; the first pod that failed by itself (the others of a gang die because of it); the document's own class.


_QUOTA = re.compile(r"exceeded quota", re.IGNORECASE)
_KUEUE, _QUEUE = "kueue.x-k8s.io/", "kueue.x-k8s.io/queue-name"
_FAR_FUTURE = datetime.max.replace(tzinfo=timezone.utc)


def classify_launch(observation: LaunchObservation, validity: Validity | None) -> Outcome:
    """Failure class and detail; (None, None) if the trial was measured. `validity`: of the document, None without one."""
    failed = _first_failure(observation)
    if validity is not None and validity.failure_class is None and not _contradicts(observation):
        return None, None
    if observation.stop is not None and not _pod_knows_better(observation.stop, failed):
        return _STOPS[observation.stop.reason](observation, observation.stop)
    if failed is not None:
        return _of_pods(observation, failed, validity)
    if validity is None:
        return _without_document(observation)
    return validity.failure_class, _join_reasons(validity)


def _pod_knows_better(stop: StopCause, failed: PodVerdict | None) -> bool:
    """An outage or a kill does not explain a pod that had failed before; pods that we killed were deleted by us."""
    if failed is None:
        return False
    return stop.reason == "unreachable" or (stop.reason == "killed" and failed.failure_class != "interrupted")


def _contradicts(observation: LaunchObservation) -> bool:
    """Whether the exit code of the harness reports a failure and its document none."""
    writers = [pod_verdict(pod, events_of(pod, observation.events), gone=False) for pod in observation.pods if rank_of(pod) == 0]
    return any(each is not None and not each.reported and each.exit_code == FAILED for each in writers)


def _first_failure(observation: LaunchObservation) -> PodVerdict | None:
    """Of the pod that failed first; within a second, a cause that the cluster reports precedes an exit code."""
    verdicts = (
        pod_verdict(pod, events_of(pod, observation.events), gone=name_of(pod) in observation.gone, own=observation.own)
        for pod in observation.pods
    )
    return min((each for each in verdicts if each is not None), key=lambda each: (each.at or _FAR_FUTURE, not each.reported), default=None)


def _of_pods(observation: LaunchObservation, failed: PodVerdict, validity: Validity | None) -> Outcome:
    detail = failed.detail if observation.expected == 1 else f"{failed.detail} (first failure among {observation.expected} pods)"
    if failed.reported or failed.exit_code != FAILED:
        if failed.exit_code != STORE_FAILED or failed.reported or validity is None:
            return failed.failure_class, detail
        # The pods' store was unavailable, and their log delivered the document.
        return (validity.failure_class or failed.failure_class), _join_reasons(validity)
    if validity is None:
        return "harness_error", f"{detail}; the result store has no document"
    if validity.failure_class is None:
        return "harness_error", f"{detail}; but the result document is {validity.status}"
    return validity.failure_class, _join_reasons(validity)


def _without_document(observation: LaunchObservation) -> Outcome:
    ended = [pod for pod in observation.pods if has_succeeded(pod)]
    if ended:
        first = min(ended, key=rank_of)
        name = name_of(first)
        if (why := _node_left(first, observation)) is not None:
            return "interrupted", f"pod {name} ended with exit code 0 and no result document: {why}; a retry may succeed"
        return (
            "harness_error",
            f"pod {name} ended with exit code 0, but the result store has no document; check that the pods write to launcher.results_url",
        )
    if not observation.pods:
        return "interrupted", "the cluster holds no object of the launch, and its end was not observed"
    states = "; ".join(f"pod {name_of(pod)} {describe_pod(pod)}" for pod in observation.pods)
    return "interrupted", f"the launch was ended before its pods, without a result document: {states}"


def _node_left(pod: Row, observation: LaunchObservation) -> str | None:
    """Why the pod's node may have ended it: a node that goes down stops the harness, and some record that as exit code 0."""
    events = events_of(pod, observation.events)
    if (disrupted := _by_condition(pod, events)) is not None:
        return disrupted.detail
    if (event := next((event for event in events if event.get("reason") in _EVENTS), None)) is not None:
        return f"{event['reason']}: {event.get('message') or _EVENTS[event['reason']]}"
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    unknown = None if node in observation.nodes else "whether its node lived was not seen; if it did, check launcher.results_url"
    return observation.leaving.get(node, unknown)


def _join_reasons(validity: Validity) -> str:
    return "; ".join(reason.detail for reason in validity.reasons)


def _not_scheduled(observation: LaunchObservation, stop: StopCause) -> Outcome:
    waiting = [pod for pod in observation.pods if not is_scheduled(pod)]
    messages = " ".join([stop.detail, *map(unscheduled_reason, waiting)])
    if _QUOTA.search(messages):
        return "quota_exceeded", f"{stop.detail}; raise the namespace's ResourceQuota, or lower launcher.parallel"
    gates = sorted({gate for pod in waiting for gate in _gates(pod)})
    foreign = [gate for gate in gates if not gate.startswith(_KUEUE)]
    if gates and not foreign:
        return (
            "quota_exceeded",
            f"{stop.detail}; its queue did not admit it (scheduling gate {', '.join(gates)}): check the Kueue workload and the quota of launcher.queue",
        )
    if gates:
        named = f"scheduling gate {', '.join(foreign)}" if foreign != [_UNNAMED] else "a scheduling gate"
        return "launch_timeout", f"{stop.detail}; {named} held it, which is not Kueue's: see the controller that sets it"
    judged = judge_unscheduled(waiting, observation.events, stop.detail)
    return ("launch_timeout", stop.detail) if judged is None else (judged[0], f"{stop.detail}; {judged[1]}")


_UNNAMED = "unnamed"


def _gates(pod: Row) -> list[str]:
    """Names of its scheduling gates; of a pod that is gated by unnamed ones its queue's, or `_UNNAMED`."""
    named = [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    if named or not any(c.get("reason") == "SchedulingGated" for c in (pod.get("status") or {}).get("conditions") or ()):
        return named
    return [f"{_KUEUE}admission" if _QUEUE in (pod["metadata"].get("labels") or {}) else _UNNAMED]


def _not_started(observation: LaunchObservation, stop: StopCause) -> Outcome:
    late = [pod for pod in observation.pods if not has_started(pod)]
    pulling = [pod for pod in late if _still_pulls(pod, observation)]
    if _UNDECLARED.search(stop.detail):
        return "bad_declaration", f"{stop.detail}; create what it names in the trial's namespace, or correct launcher.volumes"
    hint = f"; {len(pulling)} still pulled the image: raise launcher.startup_timeout, or use a nearer registry" if pulling else ""
    return "launch_timeout", f"{stop.detail}{hint}"


_UNDECLARED = re.compile(
    r"(secret|configmap|persistentvolumeclaim)s? \S+ not found|non-existent \w+ key|hostPath type check failed", re.IGNORECASE
)
"""Why a volume cannot be mounted that never will be."""


def _still_pulls(pod: Row, observation: LaunchObservation) -> bool:
    reasons = [event.get("reason") for event in events_of(pod, observation.events)]
    return "Pulling" in reasons and "Pulled" not in reasons


def _unreachable(_: LaunchObservation, stop: StopCause) -> Outcome:
    if stop.status == 403:
        # Rights do not come back by themselves. A refused token (401) often does: it is rotated, and the next try reads it again.
        return (
            "bad_declaration",
            f"{stop.detail}; permissions are missing: apply k8s/provider, or run `plumbline cluster doctor`",
        )
    hint = "; renew the token in launcher.connection" if stop.status == 401 else ""
    return "unreachable", f"{stop.detail}{hint}"


def _refused(_: LaunchObservation, stop: StopCause) -> Outcome:
    status = stop.status or 0
    if status == 403 and _QUOTA.search(stop.detail):
        return "quota_exceeded", f"{stop.detail}; raise the namespace's ResourceQuota, or lower launcher.parallel"
    if status in (401, 408, 429) or status >= 500:
        return "unreachable", f"the cluster answered {status}: {stop.detail}"
    return "bad_declaration", f"the cluster refused the launch ({status}): {stop.detail}; `plumbline cluster doctor` finds the cause"


def _cannot_start(observation: LaunchObservation, stop: StopCause) -> Outcome:
    reason = "CreateContainerConfigError" if stop.reason == "config_error" else "ErrImagePull"
    unseen = StartFailure(CONTAINER, reason, stop.detail)
    wrong = next((found for pod in observation.pods if (found := start_failure(pod)) is not None), unseen)
    failure, hint = judge_start(wrong, stop.detail, {CONTAINER, *observation.own})
    origin = origin_of(wrong.container, observation.own)
    return failure, f"{stop.detail}; {f'{wrong.container} is {origin}; ' if origin else ''}{hint}"


def _classify_as(failure: FailureClass) -> Callable[[LaunchObservation, StopCause], Outcome]:
    return lambda _, stop: (failure, stop.detail)


_STOPS: dict[StopReason, Callable[[LaunchObservation, StopCause], Outcome]] = {
    "schedule_timeout": _not_scheduled,
    "startup_timeout": _not_started,
    "image_error": _cannot_start,
    "config_error": _cannot_start,
    "deadline": _classify_as("timeout"),
    "unreachable": _unreachable,
    "refused": _refused,
    "killed": _classify_as("interrupted"),
}
