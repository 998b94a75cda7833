"""Observation of a launch as rows of the Kubernetes API: its JSON form, and the status of one pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple

from plumbline.launch.cluster.names import RANK
from plumbline.launch.cluster.names import Row as Row
from plumbline.launch.remote import Stop
from plumbline.results import FailureClass

StopReason = Literal[
    "schedule_timeout",  # no node in time; `detail` has the last message of the scheduler or Kueue
    "startup_timeout",  # on a node, but its containers did not start in time
    "image_error",  # the kubelet cannot get the image, and waiting would not change it
    "config_error",  # the kubelet cannot create a container as declared, such as without its Secret
    "server_crashes",  # a server of the trial's Deployment ended again and again before it was ready
    "no_servers",  # the trial's Deployment did not come up; `judged` is the class of the stop of its pods
    "deadline",  # it exceeded the trial's timeout, and the launcher stopped it
    "unreachable",  # the API did not answer for longer than the provider's unreachable_timeout
    "refused",  # the API refused the objects; `status` and `detail` are its response
    "no_connection",  # the triggerer has no Airflow connection of the provider's name
    "killed",  # Airflow ended the task: cleared, marked, or the worker shut down
]


@dataclass(frozen=True)
class StopCause:
    """Why the watch of a launch ended before its pods did. `status` is an HTTP status, for `refused` and `unreachable`."""

    reason: StopReason
    detail: str
    status: int | None = None
    judged: FailureClass | None = None

    @classmethod
    def of(cls, stop: Stop) -> StopCause:
        """The cause of a stop from here."""
        return cls(stop.reason, stop.detail, stop.status)


@dataclass(frozen=True)
class LaunchObservation:
    """The launcher's observation of a launch from outside.

    `pods`: the newest copy of each pod, by rank. `gone`: names of pods that were deleted, not by the launcher. `events`: core/v1 Events
    about the pods. `nodes`: Node objects by name, as of the pod's start. `leaving`: nodes that were going down or gone when the launch was
    closed, with the reason. `expected`: requested pods. For the verdict alone, `own`: containers that the launcher declares beside the trial's;
    `providers_nodes`: the provider alone fills and closes the nodes, and the trial could take any of them.
    """

    expected: int
    pods: tuple[Row, ...] = ()
    gone: frozenset[str] = frozenset()
    events: tuple[Row, ...] = ()
    nodes: Mapping[str, Row] = field(default_factory=dict)
    stop: StopCause | None = None
    leaving: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    providers_nodes: bool = False


# A trigger's row is stored in Airflow's database and printed into the task's log: it holds the pods' status, never their environment,
# arguments or volumes.


_TEXT = 2000  # characters of a message: a container's may be 4 KiB of its log
_ANNOTATIONS = ("plumbline/", "kueue.x-k8s.io/", "batch.kubernetes.io/")
_METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_STATUS = ("phase", "reason", "message", "startTime", "qosClass", "nominatedNodeName")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER = ("name", "image", "imageID", "ready", "restartCount", "state", "lastState")
_SPECIFIED = ("name", "image", "imagePullPolicy", "resources")
_EVENT = ("reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series", "reportingComponent", "source")
_EVENT_METADATA = ("name", "uid", "creationTimestamp")
_INVOLVED = ("kind", "name", "uid", "fieldPath")


def _pick(row: Row | None, keys: tuple[str, ...]) -> Row:
    return {key: _short(value) for key in keys if (value := (row or {}).get(key)) not in (None, "", {}, [])}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT else value[-_TEXT:]  # the end of a log has the cause
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return value


def trim_pod(pod: Row) -> Row:
    """The parts of a pod that show its status. All labels stay: they select the pod and hold its rank."""
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key.startswith(_ANNOTATIONS)}
    row: Row = {
        "metadata": {**_pick(metadata, _METADATA), "labels": dict(metadata.get("labels") or {}), "annotations": annotations},
        "spec": _pick(spec, ("nodeName", "schedulingGates", "priority")),
        "status": _pick(status, _STATUS),
    }
    row["spec"]["containers"] = [_pick(container, _SPECIFIED) for container in spec.get("containers") or ()]
    row["status"]["conditions"] = [_pick(condition, _CONDITION) for condition in status.get("conditions") or ()]
    for containers in ("initContainerStatuses", "containerStatuses"):
        if status.get(containers):
            row["status"][containers] = [_pick(container, _CONTAINER) for container in status[containers]]
    return row


def trim_event(event: Row) -> Row:
    """The parts of an event that name its pod, reason and times."""
    return {
        "metadata": _pick(event.get("metadata"), _EVENT_METADATA),
        "involvedObject": _pick(event.get("involvedObject"), _INVOLVED),
        **_pick(event, _EVENT),
    }


def trim_node(node: Row, pods: Iterable[Row]) -> Row:
    """The parts of a node that identify it; of its images, those that `pods` run (nodes list dozens)."""
    status = node.get("status") or {}
    containers = [
        container
        for pod in pods  # asked for and, unless it was rejected or evicted, running
        for container in (*(pod["spec"].get("containers") or ()), *((pod.get("status") or {}).get("containerStatuses") or ()))
    ]
    run = {str(container.get(key) or "").removeprefix("docker-pullable://") for container in containers for key in ("image", "imageID")}
    row: Row = {
        "metadata": {
            **_pick(node.get("metadata"), ("name", "uid", "creationTimestamp")),
            "labels": dict(node["metadata"].get("labels") or {}),
        },
        "spec": _pick(node.get("spec"), ("providerID", "taints")),
        "status": _pick(status, ("capacity", "allocatable", "nodeInfo")),
    }
    row["status"]["conditions"] = [_pick(condition, _CONDITION) for condition in status.get("conditions") or ()]
    row["status"]["images"] = [image for image in status.get("images") or () if run & set(image.get("names") or ())]
    return row


def event_time(event: Row) -> str:
    """When an event was last seen, as the API writes it, sortable; empty if unknown."""
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(last or (event.get("metadata") or {}).get("creationTimestamp") or "")


def encode_observation(observation: LaunchObservation) -> dict[str, Any]:
    """The observation as a JSON row."""
    return {
        "expected": observation.expected,
        "pods": [trim_pod(pod) for pod in observation.pods],
        "gone": sorted(observation.gone),
        "events": [trim_event(event) for event in observation.events],
        "nodes": {name: trim_node(node, observation.pods) for name, node in observation.nodes.items()},
        "leaving": dict(observation.leaving),
        "stop": None if observation.stop is None else asdict(observation.stop),
    }


def decode_observation(row: dict[str, Any]) -> LaunchObservation:
    """The observation in a row of `encode_observation`; ignores other keys."""
    stop = row["stop"]
    return LaunchObservation(
        expected=row["expected"],
        pods=tuple(row["pods"]),
        gone=frozenset(row["gone"]),
        events=tuple(row["events"]),
        nodes=row["nodes"],
        leaving=row.get("leaving", {}),
        stop=None if stop is None else StopCause(**stop),
    )


CONTAINER = "harness"
"""The trial's container; a cluster may inject others, which may outlive it."""

PERMANENT_FAILURES = frozenset({"InvalidImageName"})
"""The image's name can never be right: waiting changes nothing."""
IMAGE_FAILURES = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}
)
"""The kubelet could not get the image and tries again: a hiccup of the registry or the network looks the same as a wrong reference."""
CONFIG_FAILURES = frozenset({"CreateContainerConfigError", "CreateContainerError", "CreatePodSandboxConfigError", "PreCreateHookError"})
"""The kubelet cannot make the container as the pod declares it and tries again: a Secret may still be on its way."""
START_FAILURES = PERMANENT_FAILURES | IMAGE_FAILURES | CONFIG_FAILURES

_INDEX = "batch.kubernetes.io/job-completion-index"


def name_of(pod: Row) -> str:
    return str(pod["metadata"]["name"])


def rank_of(pod: Row) -> int:
    """The pod's rank in its gang: our label, or the index that a Job gave it; 0 for a pod alone."""
    metadata = pod["metadata"]
    for where, key in (("labels", RANK), ("labels", _INDEX), ("annotations", _INDEX)):
        if (value := str((metadata.get(where) or {}).get(key, ""))).isdigit():
            return int(value)
    return 0


def parse_time(text: str | None) -> float | None:
    """A time of the API (RFC 3339, with or without a fraction) in seconds since the epoch; None if there is none."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def format_time(time_s: float) -> str:
    """Seconds since the epoch as the API writes them, to the second."""
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_phase(pod: Row) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_scheduled(pod: Row) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) and not unscheduled_reason(pod)


def scheduled_at(pod: Row) -> float | None:
    """When it got its node, by the cluster's clock; None without one, or if the API does not show it."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return parse_time(condition.get("lastTransitionTime"))
    return None


def harness_status(pod: Row) -> Row:
    """The status of the harness container; empty before it exists."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == CONTAINER:
            return dict(status)
    return {}


def terminated(pod: Row) -> Row:
    """The terminated state of the harness container; empty while it has not ended."""
    return dict((harness_status(pod).get("state") or {}).get("terminated") or {})


def is_running(pod: Row) -> bool:
    return "running" in (harness_status(pod).get("state") or {})


def has_ended(pod: Row) -> bool:
    """Whether its phase or the exit of its harness shows an end: an injected sidecar may keep the phase at Running."""
    return pod_phase(pod) in ("Succeeded", "Failed") or bool(terminated(pod))


def has_succeeded(pod: Row) -> bool:
    """Whether it has ended and its harness exited with 0; an injected container's exit does not count, the pod's own end does."""
    if not has_ended(pod):
        return False
    ended, status = terminated(pod), pod.get("status") or {}
    if not ended:
        return pod_phase(pod) == "Succeeded"
    if pod_phase(pod) == "Failed" and (status.get("reason") or not any(map(_exit_code, containers_beside(pod)))):
        return False
    return ended.get("exitCode") == 0


def containers_beside(pod: Row) -> list[Row]:
    """Statuses of the init containers and sidecars, declared or injected."""
    status = pod.get("status") or {}
    rows = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [row for row in rows if row.get("name") != CONTAINER]


def _exit_code(container: Row) -> int:
    return int(((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0)


def has_started(pod: Row) -> bool:
    return is_running(pod) or has_ended(pod)


class StartFailure(NamedTuple):
    """Why the kubelet cannot start a container, in its own words."""

    container: str
    reason: str
    message: str


def start_failure(pod: Row) -> StartFailure | None:
    """The failure of the first container that cannot start, or None."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in START_FAILURES:
            return StartFailure(str(container.get("name")), str(waiting["reason"]), str(waiting.get("message") or ""))
    return None


_CRASHES = 3
"""Restarts after which a further one is not expected to last: the kubelet has waited 70 s in all by then."""


def crash_loop(pod: Row) -> Row | None:
    """The pod as its container ended last, if that was restarted `_CRASHES` times; else None."""
    status = harness_status(pod)
    if int(status.get("restartCount") or 0) < _CRASHES:
        return None
    ended = {**status, "state": status.get("lastState") or {}}
    return {**pod, "status": {**pod["status"], "containerStatuses": [ended]}}


def describe_pod(pod: Row) -> str:
    """Its state for a log, such as "runs on node-1" or "ended with exit code 137 (OOMKilled)"."""
    status = pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName")
    if has_ended(pod):
        ended = terminated(pod)
        reason = status.get("reason") or ended.get("reason")
        text = f"ended with exit code {ended['exitCode']}" if "exitCode" in ended else f"ended as {pod_phase(pod)}"
        return f"{text} ({reason})" if reason and reason != "Completed" else text
    if pod["metadata"].get("deletionTimestamp"):
        return f"is being deleted on {node}" if node else "is being deleted"
    if is_running(pod):
        return f"runs on {node}"
    if node:
        wrong = start_failure(pod)
        return f"is on {node} and cannot start: {wrong.reason}" if wrong else f"is on {node} and starts"
    return "waits for a node"


def unscheduled_reason(pod: Row) -> str:
    """Why the pod has no node, as its status reports it; empty if it does not."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or "")
    gates = [gate.get("name") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    return f"scheduling gates {', '.join(map(str, gates))}" if gates else ""
