"""Failure class of a launch, from the verdicts on its pods and the result document. Pure.

A valid document is a result, whatever happened to the pods after it was written. Otherwise the first of these counts: why we stopped the
launch; the first pod that failed by itself (the others of a gang die because of it); the document's own class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from plumbline.harness.hardware_faults import find_hardware_fault
from plumbline.launch.cluster.node_gpus import GETS, NOT_GOT
from plumbline.launch.cluster.observe.observation import (
    CONTAINER,
    LaunchObservation,
    Row,
    StartFailure,
    StopCause,
    StopReason,
    crash_loop,
    describe_pod,
    has_started,
    has_succeeded,
    is_scheduled,
    name_of,
    rank_of,
    start_failure,
    terminated,
    unscheduled_reason,
)
from plumbline.launch.cluster.observe.pod_records import events_of
from plumbline.launch.cluster.observe.pod_verdict import PodVerdict, node_loss, pod_verdict
from plumbline.launch.cluster.observe.scheduling import judge_unscheduled
from plumbline.launch.cluster.observe.start_failures import judge_sandbox, judge_start, origin_of
from plumbline.launch.failures import FAILED, STORE_FAILED, Outcome, last_lines
from plumbline.results import Validity

_QUOTA = re.compile(r"exceeded quota", re.IGNORECASE)
_KUEUE, _QUEUE = "kueue.x-k8s.io/", "kueue.x-k8s.io/queue-name"
_FAR_FUTURE = datetime.max.replace(tzinfo=timezone.utc)


def classify_launch(observation: LaunchObservation, validity: Validity | None) -> Outcome:
    """Failure class and detail; (None, None) if the trial was measured. `validity`: the document's, None without a document."""
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
    """The verdict on the pod that failed first; within a second, a cause that the cluster reports precedes an exit code."""
    verdicts = (_verdict(pod, observation) for pod in observation.pods)
    return min((each for each in verdicts if each is not None), key=lambda each: (each.at or _FAR_FUTURE, not each.reported), default=None)


def _verdict(pod: Row, observation: LaunchObservation) -> PodVerdict | None:
    """With what became of its node. What a node could not give while its driver or layout changes is not proven to be the provider's."""
    found = pod_verdict(
        pod,
        events_of(pod, observation.events),
        gone=name_of(pod) in observation.gone,
        own=observation.own,
        providers_nodes=observation.providers_nodes,
    )
    why = observation.leaving.get(str((pod.get("spec") or {}).get("nodeName") or ""))
    if found is None or not found.reported or why is None or why in found.detail:
        return found
    failure = found.failure_class
    if failure in _OF_THE_NODE and why.startswith(f"its node {GETS}"):
        failure = "launch_timeout"
    elif failure in _OF_THE_NODE and why.startswith(f"its node {NOT_GOT}"):
        failure = "bad_declaration"
    return replace(found, failure_class=failure, detail=f"{found.detail}; {why}")


_OF_THE_NODE = frozenset({"provider_fault", "wrong_hardware", "insufficient_capacity", "launch_timeout"})
"""Classes of what a node did not give."""


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
    if (lost := node_loss(pod, events_of(pod, observation.events))) is not None:
        return lost
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
    judged = judge_unscheduled(waiting, observation.events, stop.detail, providers_nodes=observation.providers_nodes)
    return ("launch_timeout", stop.detail) if judged is None else (judged[0], f"{stop.detail}; {judged[1]}")


_UNNAMED = "unnamed"


def _gates(pod: Row) -> list[str]:
    """Names of the pod's scheduling gates; for unnamed ones its queue's, or `_UNNAMED`."""
    named = [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    if named or not any(c.get("reason") == "SchedulingGated" for c in (pod.get("status") or {}).get("conditions") or ()):
        return named
    return [f"{_KUEUE}admission" if _QUEUE in (pod["metadata"].get("labels") or {}) else _UNNAMED]


def _not_started(observation: LaunchObservation, stop: StopCause) -> Outcome:
    late = [pod for pod in observation.pods if not has_started(pod)]
    pulling = [pod for pod in late if _still_pulls(pod, observation)]
    if _UNDECLARED.search(stop.detail):
        return "bad_declaration", f"{stop.detail}; create what it names in the trial's namespace, or correct launcher.volumes"
    if (sandbox := judge_sandbox(stop.detail)) is not None:
        return sandbox[0], f"{stop.detail}; {sandbox[1]}"
    hint = f"; {len(pulling)} still pulled the image: raise launcher.startup_timeout, or use a nearer registry" if pulling else ""
    return "launch_timeout", f"{stop.detail}{hint}"


_UNDECLARED = re.compile(
    r"(secret|configmap|persistentvolumeclaim)s? \S+ not found|non-existent \w+ key|hostPath type check failed", re.IGNORECASE
)
"""Messages about volumes that can never be mounted."""


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


def _crashes(observation: LaunchObservation, stop: StopCause) -> Outcome:
    pod = next(ended for pod in observation.pods if (ended := crash_loop(pod)) is not None)
    verdict, said = pod_verdict(pod, events_of(pod, observation.events), gone=False), str(terminated(pod).get("message") or "")
    if verdict is not None and verdict.reported:
        return verdict.failure_class, f"{stop.detail}: {verdict.detail}"
    # The meanings of exit codes are the harness's.
    fault, words = find_hardware_fault(said), last_lines(said)
    return "server_error" if fault is None else "provider_fault", f"{stop.detail}: {words}; see launcher.serving.command and env"


_STOPS: dict[StopReason, Callable[[LaunchObservation, StopCause], Outcome]] = {
    "schedule_timeout": _not_scheduled,
    "startup_timeout": _not_started,
    "image_error": _cannot_start,
    "config_error": _cannot_start,
    "server_crashes": _crashes,
    "no_servers": lambda _, stop: (stop.judged, stop.detail),
    "deadline": lambda _, stop: ("timeout", stop.detail),
    "unreachable": _unreachable,
    "refused": _refused,
    "no_connection": lambda _, stop: ("bad_declaration", stop.detail),
    "killed": lambda _, stop: ("interrupted", stop.detail),
}
