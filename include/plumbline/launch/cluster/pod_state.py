"""Pure: what one pod, as the API gives it, says about where it is in its life."""

from __future__ import annotations

from datetime import datetime, timezone

from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import RANK

CONTAINER = "harness"
"""The container that is the trial; a cluster may have injected others beside it, which may outlive it."""
_TRAINER = "node"
"""What it is called in the pods of a TrainJob: the trainer prescribes the name."""

HOPELESS = frozenset({"InvalidImageName"})
"""The image's name can never be right: waiting changes nothing."""
IMAGE_TROUBLE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}
)
"""The kubelet could not get the image and tries again: a hiccup of the registry or the network looks the same as a wrong reference."""
CONFIG_TROUBLE = frozenset({"CreateContainerConfigError", "CreateContainerError", "CreatePodSandboxConfigError", "PreCreateHookError"})
"""The kubelet cannot make the container as the pod declares it and tries again: a Secret may still be on its way."""
TROUBLE = HOPELESS | IMAGE_TROUBLE | CONFIG_TROUBLE

_INDEX = "batch.kubernetes.io/job-completion-index"


def name_of(pod: Row) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def rank_of(pod: Row) -> int:
    """The pod's rank in its gang: our label, or the index that a Job gave it; 0 for a pod alone."""
    metadata = pod["metadata"]
    for where, key in (("labels", RANK), ("labels", _INDEX), ("annotations", _INDEX)):
        if (value := str((metadata.get(where) or {}).get(key, ""))).isdigit():
            return int(value)
    return 0


def time_of(text: str | None) -> float | None:
    """A time of the API (RFC 3339, with or without a fraction) in seconds since the epoch; None if there is none."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def text_of(time_s: float) -> str:
    """Seconds since the epoch as the API writes them, to the second."""
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def phase(pod: Row) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def on_node(pod: Row) -> bool:
    """The scheduler gave it a node."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def scheduled_at(pod: Row) -> float | None:
    """When it got its node, by the cluster's clock; None if it has none or the API does not say."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return time_of(condition.get("lastTransitionTime"))
    return None


def container_of(pod: Row) -> str:
    """The name of the container that is the trial."""
    named = {container.get("name") for container in (pod.get("spec") or {}).get("containers") or ()}
    return _TRAINER if _TRAINER in named and CONTAINER not in named else CONTAINER


def harness(pod: Row) -> Row:
    """The status of the harness container; empty if there is none yet."""
    wanted = container_of(pod)
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == wanted:
            return dict(status)
    return {}


def running(pod: Row) -> bool:
    """Its harness runs now."""
    return "running" in (harness(pod).get("state") or {})


def over(pod: Row) -> bool:
    """It has ended: its phase says so, or its harness exited (an injected sidecar may keep the phase at Running for ever)."""
    return phase(pod) in ("Succeeded", "Failed") or "terminated" in (harness(pod).get("state") or {})


def succeeded(pod: Row) -> bool:
    """It has ended and its harness exited with 0."""
    if not over(pod) or phase(pod) == "Failed":
        return False
    ended = (harness(pod).get("state") or {}).get("terminated")
    return phase(pod) == "Succeeded" if ended is None else ended.get("exitCode") == 0


def started(pod: Row) -> bool:
    """Its harness runs or has run."""
    return running(pod) or over(pod)


def trouble(pod: Row) -> tuple[str, str] | None:
    """Why the kubelet cannot start a container, as (reason, message); None if nothing is wrong."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in TROUBLE:
            return str(waiting["reason"]), str(waiting.get("message") or "")
    return None


def describe(pod: Row) -> str:
    """Where the pod is, in a few words for a log: "runs on node-1", "ended with exit code 137 (OOMKilled)"."""
    status = pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName")
    if over(pod):
        ended = (harness(pod).get("state") or {}).get("terminated") or {}
        reason = status.get("reason") or ended.get("reason")
        text = f"ended with exit code {ended['exitCode']}" if "exitCode" in ended else f"ended as {phase(pod)}"
        return f"{text} ({reason})" if reason and reason != "Completed" else text
    if pod["metadata"].get("deletionTimestamp"):
        return f"is being deleted on {node}" if node else "is being deleted"
    if running(pod):
        return f"runs on {node}"
    if node:
        wrong = trouble(pod)
        return f"is on {node} and cannot start: {wrong[0]}" if wrong else f"is on {node} and starts"
    return "waits for a node"


def why_no_node(pod: Row) -> str:
    """What the pod itself says about why it has no node; empty if it says nothing."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or "")
    gates = [gate.get("name") for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    return f"held back by the scheduling gates {', '.join(map(str, gates))}" if gates else ""
