"""Pure: what is known of the place that a pod ran at and of what it was given, as flat facts.

Keys with a dot are those of a trial's environment, seen here from the outside, where also a pod that never started has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.pod_state import container_of, harness
from plumbline.launch.cluster.pod_timeline import pull
from plumbline.results import Scalar

JOB = "kubernetes.job"
"""Fact: the Job that created the pod, in a JobSet or a TrainJob; absent of a pod that a launch created itself."""

# Names of labels by fact; the first one that the node has counts. They come from Kubernetes, from the GPU feature discoveries, and
# (product) from clouds whose nodes have no such discovery.
_LABELS: dict[str, tuple[str, ...]] = {
    "host.instance_type": ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    "host.region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    "host.zone": ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    "gpu.product": ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator"),
    "gpu.count": ("nvidia.com/gpu.count",),
    "gpu.memory_mib": ("nvidia.com/gpu.memory",),
    "gpu.mig_strategy": ("nvidia.com/mig.strategy",),
    "driver.version": ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version"),
    "cuda.version": ("nvidia.com/cuda.runtime-version.full",),
}
_PARTS = {
    "driver.version": [f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev")],
    "cuda.version": [f"nvidia.com/cuda.runtime.{part}" for part in ("major", "minor")],
}
"""Versions as older feature discoveries give them: in parts."""
_NUMBERS = ("gpu.count", "gpu.memory_mib")
_INFO = {
    "kubernetes.version": "kubeletVersion",
    "kubernetes.runtime": "containerRuntimeVersion",
    "os.kernel": "kernelVersion",
    "os.name": "osImage",
    "os.architecture": "architecture",
}
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def facts(pod: Row, events: Sequence[Row], node: Row | None) -> dict[str, Scalar]:
    """What is known; a fact that is not known is absent.

    Of the pod: `image`, `image_id`, `image_cached`, `image_bytes`, `image_pull_s` (seconds), `qos_class`, `kubernetes.job`. Of its node: the
    others. `events` are those about the pod.
    """
    found = {**({} if node is None else of_node(node)), **_of_pod(pod), **_of_image(pod, events, node)}
    return {key: value for key, value in sorted(found.items()) if value is not None}


def of_node(node: Row) -> dict[str, Scalar]:
    """What a node tells of itself; None for what its labels do not say."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    found: dict[str, Scalar] = {key: info.get(field) for key, field in _INFO.items()}
    for key, candidates in _LABELS.items():
        found[key] = next((labels[label] for label in candidates if label in labels), None) or _joined(labels, _PARTS.get(key, []))
    for key in _NUMBERS:
        text = found[key]
        found[key] = int(text) if isinstance(text, str) and text.isdigit() else None
    return found


def _joined(labels: Mapping[str, str], parts: Sequence[str]) -> str | None:
    return ".".join(labels[part] for part in parts if labels.get(part)) or None


def _of_pod(pod: Row) -> dict[str, Scalar]:
    labels = pod["metadata"].get("labels") or {}
    return {
        "qos_class": (pod.get("status") or {}).get("qosClass"),
        JOB: next((labels[label] for label in _JOB_LABELS if label in labels), None),
    }


def _of_image(pod: Row, events: Sequence[Row], node: Row | None) -> dict[str, Scalar]:
    containers = (pod.get("spec") or {}).get("containers") or ()
    name = container_of(pod)
    asked = next((str(each["image"]) for each in containers if each.get("name") == name and each.get("image")), None)
    status = harness(pod)
    image_id = str(status.get("imageID") or "").removeprefix("docker-pullable://") or None
    came = pull(pod, events)
    size = came.size if came.size is not None else _held(node, {asked, image_id, status.get("image")}.__contains__)
    return {"image": asked, "image_id": image_id, "image_cached": came.cached, "image_pull_s": came.seconds, "image_bytes": size}


def _held(node: Row | None, is_it: Callable[[str], bool]) -> int | None:
    """Bytes of an image as its node reports them; a node lists only its largest ones."""
    images = ((node or {}).get("status") or {}).get("images") or ()
    return next((image.get("sizeBytes") for image in images if any(map(is_it, image.get("names") or ()))), None)
