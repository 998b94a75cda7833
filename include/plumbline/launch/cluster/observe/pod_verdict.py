"""Why a pod failed, by its status, events and exit code. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.launch.cluster.observe.observation import (
    CONTAINER,
    Row,
    StartFailure,
    describe_pod,
    event_time,
    has_ended,
    has_succeeded,
    name_of,
    start_failure,
    terminated,
)
from plumbline.launch.cluster.observe.pod_records import deletion_requested_at, ended_at, first_seen, parse_moment, pod_timeline
from plumbline.launch.cluster.observe.start_failures import (
    CREATION_FAILURES,
    failed_beside,
    judge_creation,
    judge_rejection,
    judge_start,
    origin_of,
)
from plumbline.launch.failures import EXTERNAL_SIGNALS, FAILED, STORE_FAILED, UNUSABLE_INPUT, crash_outcome, last_lines, signal_name
from plumbline.results import FailureClass

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
_KUEUE: tuple[tuple[str, FailureClass, str], ...] = (
    (
        "preempt|reclaim",
        "interrupted",
        "a workload of higher priority, or another queue of its cohort, took its quota: see the ClusterQueue's preemption",
    ),
    ("podsready", "interrupted", "not all its pods were ready in Kueue's own time: raise waitForPodsReady.timeout"),
    ("stopped", "interrupted", "an operator stopped the queue (stopPolicy); start it again before the next try"),
    ("execution time", "bad_declaration", "it ran longer than Kueue lets it: raise kueue.x-k8s.io/max-exec-time-seconds"),
    ("admission ?check", "interrupted", "an admission check of its queue failed: see the Workload's admissionChecks"),
    ("workload ?(is )?deleted|nomatchingworkload", "interrupted", "its Workload was deleted; the cluster's audit log names the user"),
    ("not ?admitted", "interrupted", "its queue no longer admits it: see the Workload's conditions"),
    ("node", "interrupted", "its node failed, as Kueue saw it"),
)
"""Class and cause by what Kueue says when it stops pods, the first match counts."""
_DISRUPTIONS: tuple[tuple[str, str], ...] = (
    ("spot ?interruption|spot-itn", "the cloud took its spot instance back; a retry may succeed"),
    ("underutili[sz]ed|consolidat|empty|drifted|expired", "Karpenter removed its node: see the disruption settings of its NodePool"),
    ("descheduler", "the cluster's descheduler moved it: exclude the trials' namespace there"),
    (
        "preempt|reclaim",
        "a workload of higher priority, or another queue, took its place: see launcher.priority_class and the scheduler's queues",
    ),
)
"""Cause by what a controller says in an event when it deletes or evicts a pod, the first match counts."""
_DISRUPTS = re.compile(
    r"^\w*(evict|preempt|reclaim|disrupt)\w*:|\b(evicted|preempted) (from|by|because)|because of (preempt|reclaim)|/descheduler",
    re.IGNORECASE,
)
"""An event's reason, or the words of its message: names of pods may have them too."""
_OOM = re.compile(r"oom[- ]?kill|out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class PodVerdict:
    """Why a pod failed. `at`: when, if known. `reported`: the cluster states the cause; otherwise only the harness's `exit_code` shows it."""

    failure_class: FailureClass
    detail: str
    at: datetime | None
    reported: bool
    exit_code: int | None = None


def pod_verdict(
    pod: Row, events: Sequence[Row], *, gone: bool, own: Collection[str] = (), providers_nodes: bool = False
) -> PodVerdict | None:
    """Why the pod failed; None if it succeeded or has not failed yet. `events`: about the pod. `gone`: deleted by someone else. `own`,
    `providers_nodes`: see LaunchObservation."""
    if has_succeeded(pod):
        return None
    if (rejected := _by_status(pod, events, providers_nodes)) is not None:
        return rejected
    for evidence in (_by_condition, _by_memory):
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


def _by_status(pod: Row, events: Sequence[Row], providers_nodes: bool) -> PodVerdict | None:
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip()
    ran = any(event.name in ("started", "ready") for event in pod_timeline(pod, events))
    if reason == "Evicted":
        known = _EXCEEDED if _OWN_LIMIT.search(message) else _EVICTED
    elif (rejected := judge_rejection(reason, message, ran=ran, providers_nodes=providers_nodes)) is not None:
        known = rejected
    elif reason in _REASONS:
        known = _REASONS[reason]
    else:
        return None
    at = next((parse_moment(first_seen(event)) for event in events if event.get("reason") == reason), None)
    return _reported(pod, known[0], f"ended as {reason}: {message or 'no message'}; {known[1]}", at)


def _by_condition(pod: Row, events: Sequence[Row]) -> PodVerdict | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        kind, reason = condition.get("type"), str(condition.get("reason") or "")
        if kind not in ("DisruptionTarget", "TerminationTarget") or condition.get("status") != "True":
            continue
        message = str(condition.get("message") or "no message").strip()
        failure: FailureClass = "interrupted"
        if kind == "TerminationTarget":  # what Kueue sets on pods that it stops
            known = ((failed, why) for said in (message, reason) for words, failed, why in _KUEUE if re.search(words, said, re.IGNORECASE))
            failure, hint = next(known, ("interrupted", "Kueue took its quota back; a retry may succeed"))
        else:
            hint = _disruption(events) or _REASONS.get(reason, ("interrupted", _RECLAIMED))[1]
        return _reported(pod, failure, f"was ended ({reason}): {message}; {hint}", parse_moment(condition.get("lastTransitionTime")))
    return None


def _disruption(events: Sequence[Row]) -> str | None:
    """The event in which a controller says that it takes the pod away, with what that means; None without one."""
    for event in sorted(events, key=event_time, reverse=True):
        said = f"{event.get('reason')}: {str(event.get('message') or '').strip()}"
        if event.get("reason") in _EVENTS or not _DISRUPTS.search(said):
            continue
        why = next((why for words, why in _DISRUPTIONS if re.search(words, said, re.IGNORECASE)), None)
        return said if why is None else f"{said}; {why}"
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


def node_loss(pod: Row, events: Sequence[Row]) -> str | None:
    """How the pod's node was lost, by a condition of the pod or an event about it; None if neither says so."""
    if (disrupted := _by_condition(pod, events)) is not None:
        return disrupted.detail
    event = next((event for event in events if event.get("reason") in _EVENTS), None)
    return None if event is None else f"{event['reason']}: {event.get('message') or _EVENTS[event['reason']]}"


def _deleted(pod: Row, events: Sequence[Row], *, gone: bool) -> PodVerdict | None:
    """The verdict on a pod that was deleted before it ended: its exit code shows only how the harness reacted."""
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
    if (disrupted := _disruption(events)) is not None:
        text = f"was deleted by the cluster: {disrupted}"
    elif requested_at is not None:
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
    """The class that an exit code of the harness means, with the detail; `message`: the end of its log."""
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
