"""Pure: why one pod failed, from the strongest evidence to the weakest, in a sentence for the person who is woken by it."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.launch.cluster import pod_state
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.pod_timeline import deletion_asked_at, ended_at, first_time, moment
from plumbline.launch.outcome import FAILED, STORE_FAILED, UNUSABLE_INPUT, last_lines
from plumbline.results import FailureClass

# What became of a pod as its status, a condition or an event names it: class, and what to look at.
_Known = tuple[FailureClass, str]
_TAKEN = "the place was taken away; another attempt may last"
_REASONS: dict[str, _Known] = {
    "DeadlineExceeded": ("timeout", "it ran into its activeDeadlineSeconds: compare the provider's timeout with what the workload needs"),
    "Preempting": ("interrupted", f"the kubelet needed the room for a critical pod: {_TAKEN}"),
    "NodeLost": ("interrupted", "its node stopped answering"),
    "NodeShutdown": ("interrupted", f"its node was shut down, as spot instances are: {_TAKEN}"),
    "Shutdown": ("interrupted", f"its node was shut down, as spot instances are: {_TAKEN}"),
    "Terminated": ("interrupted", f"its node was shut down, as spot instances are: {_TAKEN}"),
    "PreemptionByScheduler": ("interrupted", f"a pod of higher priority took its place; see launcher.priority_class. {_TAKEN}"),
    "DeletionByTaintManager": ("interrupted", "its node got a NoExecute taint: the provider drains or repairs it"),
    "EvictionByEvictionAPI": ("interrupted", "somebody drained its node, or an autoscaler removed it"),
    "DeletionByPodGC": ("interrupted", "its node is no more"),
    "TerminationByKubelet": ("interrupted", f"its node was short of something, or was shut down: {_TAKEN}"),
    "UnexpectedAdmissionError": (
        "insufficient_capacity",
        "the node could not give it the devices that it promised: look at its device plugin",
    ),
    "NodeAffinity": ("insufficient_capacity", "the node's labels changed before it started"),
    "SysctlForbidden": ("bad_declaration", "the node does not allow a sysctl that the pod asks for"),
    "AppArmor": ("bad_declaration", "the node does not have the AppArmor profile that the pod asks for"),
}
_OUT_OF: _Known = ("insufficient_capacity", "the node had less to give than the scheduler thought")
_EVICTED: _Known = ("interrupted", f"its node was short of something: {_TAKEN}")
_OUTGREW: _Known = (
    "bad_declaration",
    "it outgrew what was declared, and would again: raise launcher.resources.ephemeral_storage or shared_memory",
)
_OWN_LIMIT = re.compile(r"exceeds the (total )?limit|exceeded its local ephemeral storage limit", re.IGNORECASE)
_EVENTS = {
    "TaintManagerEviction": _REASONS["DeletionByTaintManager"][1],
    "Preempted": _REASONS["PreemptionByScheduler"][1],
    "NodeNotReady": _REASONS["NodeLost"][1],
}
"""What to look at after an event with which the cluster announces that it deletes a pod."""
_GPU_RUNTIME = re.compile(r"nvidia-container|nvml|libnvidia|nvidia\.com/|cdi device", re.IGNORECASE)
_OOM = re.compile(r"oom[- ]?kill|out of memory", re.IGNORECASE)
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Verdict:
    """`at`: when it befell the pod, if known. `told`: the cluster itself says so; else only an exit code does. `exit_code` is the harness's."""

    failure_class: FailureClass
    detail: str
    at: datetime | None
    told: bool
    exit_code: int | None = None


def verdict(pod: Row, events: Sequence[Row], *, gone: bool) -> Verdict | None:
    """Why the pod failed; None if it succeeded or has not failed (yet). `events` are those about it; `gone`: somebody removed it."""
    if pod_state.succeeded(pod):
        return None
    for evidence in (_by_status, _by_condition, _by_memory):
        if (found := evidence(pod, events)) is not None:
            return found
    if (deleted := _deleted(pod, events, gone=gone)) is not None:
        return deleted
    wrong = pod_state.trouble(pod)
    if wrong is not None and not pod_state.over(pod):
        return _told(pod, trouble_class(wrong[0]), f"cannot start: {wrong[0]}: {wrong[1]}", None)
    return _by_exit(pod) if pod_state.over(pod) else None


def trouble_class(reason: str) -> FailureClass:
    """The class of a container that waits for this reason."""
    return "bad_declaration" if reason in pod_state.CONFIG_TROUBLE else "image_error"


def where(pod: Row) -> str:
    """The pod and its node, as a sentence begins."""
    node = (pod.get("spec") or {}).get("nodeName")
    return f"pod {pod_state.name_of(pod)}" + (f" on {node}" if node else "")


def _by_status(pod: Row, events: Sequence[Row]) -> Verdict | None:
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip()
    if reason == "Evicted":
        known = _OUTGREW if _OWN_LIMIT.search(message) else _EVICTED
    elif reason.startswith("OutOf"):
        known = _OUT_OF
    elif reason in _REASONS:
        known = _REASONS[reason]
    else:
        return None
    at = next((moment(first_time(event)) for event in events if event.get("reason") == reason), None)
    return _told(pod, known[0], f"ended as {reason}: {message or 'no message'}; {known[1]}", at)


def _by_condition(pod: Row, _: Sequence[Row]) -> Verdict | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        kind, reason = condition.get("type"), str(condition.get("reason") or "")
        if kind not in ("DisruptionTarget", "TerminationTarget") or condition.get("status") != "True":
            continue
        # TerminationTarget is what Kueue sets on pods whose quota it takes back.
        hint = _REASONS.get(reason, ("interrupted", _TAKEN))[1] if kind == "DisruptionTarget" else f"Kueue took its quota back: {_TAKEN}"
        said = str(condition.get("message") or "no message").strip()
        return _told(pod, "interrupted", f"was ended ({reason}): {said}; {hint}", moment(condition.get("lastTransitionTime")))
    return None


def _by_memory(pod: Row, events: Sequence[Row]) -> Verdict | None:
    ended = _ended(pod)
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    oom_event = any(_OOM.search(f"{event.get('reason')} {event.get('message')}") for event in events)
    never_began = ended.get("reason") in ("StartError", "RunContainerError") and _OOM.search(message)
    if ended.get("reason") == "OOMKilled" or (code == 128 + signal.SIGKILL and oom_event) or never_began:
        limit = next((held for container in pod["spec"].get("containers") or () if (held := _memory(container))), "no")
        text = f"went over its memory limit ({limit}) and was killed (OOMKilled, exit code {code}); see launcher.resources.memory"
        return _told(pod, "out_of_memory", text, ended_at(pod))
    return None


def _memory(container: Row) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get("memory") or "")


def _deleted(pod: Row, events: Sequence[Row], *, gone: bool) -> Verdict | None:
    """Deleted before it ended: its exit code then only says how the harness took it."""
    asked, ended = deletion_asked_at(pod), ended_at(pod)
    deleted_first = asked is not None and (ended is None or asked <= ended)
    if not deleted_first and not (gone and not pod_state.over(pod)):
        return None
    for event in events:  # clusters before 1.26 say only by an event that they did it themselves
        if (hint := _EVENTS.get(str(event.get("reason")))) is not None:
            said = f"{event['reason']}: {str(event.get('message') or 'no message').strip()}"
            return _told(pod, "interrupted", f"was deleted by the cluster: {said}; {hint}", asked or moment(first_time(event)))
    if asked is not None:
        text = f"was deleted at {asked:%H:%M:%S} UTC, not by Plumbline (unless its task was ended in Airflow then); the cluster's audit log says by whom"
    else:
        text = (
            f"is gone, and the last that was seen of it is that it {pod_state.describe(pod)}: somebody deleted it, or its node is no more"
        )
    return _told(pod, "interrupted", text, asked)


def _by_exit(pod: Row) -> Verdict:
    ended = _ended(pod)
    if "exitCode" not in ended:
        status = pod.get("status") or {}
        said = f"{status.get('reason') or 'no reason'}: {status.get('message') or 'no message'}"
        return _told(pod, "interrupted", f"failed without an exit code ({said}): its node may have lost it", None)
    code, message = int(ended["exitCode"]), str(ended.get("message") or "")
    if ended.get("reason") in ("StartError", "RunContainerError", "ContainerCannotRun"):
        if _GPU_RUNTIME.search(message):
            text = f"could not be given its GPUs: {message}; the node's GPU driver or container toolkit is broken"
            return _told(pod, "wrong_hardware", text, ended_at(pod))
        return _told(
            pod, "image_error", f"could not be started ({ended['reason']}): {message}; does the image hold the harness?", ended_at(pod)
        )
    if ended.get("reason") == "ContainerStatusUnknown":
        return _told(pod, "interrupted", f"was lost by its kubelet: {message}", ended_at(pod))
    failure, text = _meaning(code, message)
    return Verdict(failure, f"{where(pod)} {text}", ended_at(pod), told=False, exit_code=code)


def _meaning(code: int, message: str) -> tuple[FailureClass, str]:
    """What an exit code of the harness means; `message` is the end of its log."""
    said = last_lines(message)
    if code == UNUSABLE_INPUT:
        return "bad_declaration", f"ended with exit code {code}: the harness could not use what it was given: {said}"
    if code == STORE_FAILED and "No module named" in message:
        return "image_error", f"ended with exit code {code}: the image lacks a part of the harness: {said}"
    if code == STORE_FAILED and "Traceback" not in message:
        return "unreachable", f"ended with exit code {code}: the result store did not answer it: {said}"
    if code == FAILED:
        return "harness_error", f"ended with exit code {code} (failed): {said}"
    if (name := _signal(code)) is None:
        return "harness_error", f"ended with exit code {code}: {said}"
    if code - 128 in _FROM_OUTSIDE:
        return "interrupted", f"was ended by {name} (exit code {code}); neither its memory nor the cluster explains it: {said}"
    return "harness_error", f"died of {name} (exit code {code}): {said}"


def _signal(code: int) -> str | None:
    """The signal that a process died of, as a shell or a container runtime says it; None if it ended by itself."""
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return None


def _ended(pod: Row) -> Row:
    return dict((pod_state.harness(pod).get("state") or {}).get("terminated") or {})


def _told(pod: Row, failure: FailureClass, text: str, at: datetime | None) -> Verdict:
    return Verdict(failure, f"{where(pod)} {text}", at, told=True, exit_code=_ended(pod).get("exitCode"))
