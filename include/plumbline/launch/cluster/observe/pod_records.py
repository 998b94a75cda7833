"""Records of pods: timeline by the cluster's clocks, facts of node and image, notices. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.launch.cluster.node_gpus import PRODUCT_LABELS, NodeGpus
from plumbline.launch.cluster.observe.observation import (
    CONTAINER,
    LaunchObservation,
    Row,
    event_time,
    harness_status,
    name_of,
    rank_of,
    terminated,
)
from plumbline.results import Event, Notice, PodRecord, Scalar

POINTS = ("requested", "admitted", "scheduled", "image_pulling", "image_pulled", "started", "ready", "finished", "deleted")
"""Points of a pod's timeline. `deleted`: when its deletion was requested. A point that was not reached or observed is absent."""
WAS_READY = "plumbline/was-ready"
"""Condition that `keep_ready_time` adds to a pod: a Ready condition loses its time when the containers end."""

_PULLED = re.compile(r"pulled image .*? in (?P<time>[0-9.a-zµ]+)")
_SIZE = re.compile(r"Image size: (?P<bytes>\d+) bytes")
_PART = re.compile(r"([0-9.]+)(h|ms|m|us|µs|ns|s)")  # of a Go duration: 1m31.2s, 890ms
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class ImagePull:
    """The pull of the harness's image, as the kubelet reports it. `seconds`: without waiting for other pulls."""

    cached: bool | None = None
    seconds: float | None = None
    size: int | None = None


def parse_moment(text: str | None) -> datetime | None:
    """A time of the API in whole seconds; None without one, or where the API writes the year 1970 for none."""
    if not text:
        return None
    at = datetime.fromisoformat(text.replace("Z", "+00:00")).replace(microsecond=0)
    return at if at.year > 1970 else None


def events_of(pod: Row, events: Iterable[Row]) -> tuple[Row, ...]:
    """The events of this pod's uid, oldest first: an earlier pod may have had the same name."""
    name, uid = name_of(pod), pod["metadata"].get("uid")
    own = (event for event in events if _is_of(event.get("involvedObject") or {}, name, uid))
    return tuple(sorted(own, key=lambda event: (first_seen(event), event_time(event))))


def first_seen(event: Row) -> str:
    """When an event was first seen, as the API writes it; empty if unknown."""
    return str(event.get("firstTimestamp") or event.get("eventTime") or (event.get("metadata") or {}).get("creationTimestamp") or "")


def pod_timeline(pod: Row, events: Sequence[Row]) -> tuple[Event, ...]:
    """The points that the pod reached, in the order of `POINTS`, by its own events."""
    state = harness_status(pod).get("state") or {}
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    admissions = (event for event in events if event.get("reason") == "Started" and "dmitted by" in str(event.get("message")))
    reached = {
        "requested": parse_moment(pod["metadata"].get("creationTimestamp")),
        "admitted": _first_moment(admissions),
        # On older clusters a pod that was evicted or exceeded its deadline loses its conditions and containers, but not its events.
        "scheduled": _condition(pod, "PodScheduled") or _first_moment(event for event in events if event.get("reason") == "Scheduled"),
        "image_pulling": _first_moment(_of_harness(pod, events, "Pulling")),
        "image_pulled": _first_moment(event for event in _of_harness(pod, events, "Pulled") if _PULLED.search(str(event.get("message")))),
        "started": parse_moment(began) or (_first_moment(_of_harness(pod, events, "Started")) if not harness_status(pod) else None),
        "ready": _ready(pod),
        "finished": ended_at(pod),
        "deleted": deletion_requested_at(pod),
    }
    return tuple(Event(name=name, utc=at, clock="cluster") for name in POINTS if (at := reached[name]) is not None)


def image_pull(pod: Row, events: Iterable[Row]) -> ImagePull:
    """The image's pull by its last event."""
    pull = ImagePull()
    for event in _of_harness(pod, events, "Pulled"):
        message = str(event.get("message") or "")
        took, size = _PULLED.search(message), _SIZE.search(message)
        if took is not None:
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(took["time"]))
            pull = ImagePull(False, seconds, int(size["bytes"]) if size else None)
        elif "already present" in message:
            pull = ImagePull(True)
    return pull


def keep_ready_time(before: Row, now: Row) -> Row:
    """The newer copy of a pod, with the ready time of the older one if it has none."""
    at = _ready(before)
    if at is None or _ready(now) is not None:
        return now
    status = dict(now.get("status") or {})
    condition = {"type": WAS_READY, "status": "True", "lastTransitionTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {**now, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


def ended_at(pod: Row) -> datetime | None:
    """When the harness's container ended; None if it did not, or unobserved."""
    return parse_moment(terminated(pod).get("finishedAt"))


def deletion_requested_at(pod: Row) -> datetime | None:
    """When the pod's deletion was requested. The API shows the end of its grace period."""
    until = parse_moment(pod["metadata"].get("deletionTimestamp"))
    if until is None:
        return None
    return datetime.fromtimestamp(until.timestamp() - int(pod["metadata"].get("deletionGracePeriodSeconds") or 0), until.tzinfo)


def _is_of(involved: Row, name: str, uid: str | None) -> bool:
    other = involved.get("uid")
    return involved.get("name") == name and (other is None or uid is None or other == uid)


def _of_harness(pod: Row, events: Iterable[Row], reason: str) -> Iterator[Row]:
    """A kubelet's events with this reason about the harness's container."""
    path_of_harness = f"spec.containers{{{CONTAINER}}}"
    for event in events:
        path = (event.get("involvedObject") or {}).get("fieldPath")
        admitted = "dmitted by" in str(event.get("message"))  # Kueue calls its event Started too
        if event.get("reason") == reason and not admitted and path in (None, "", path_of_harness):
            yield event


def _first_moment(events: Iterable[Row]) -> datetime | None:
    return next((at for event in events if (at := parse_moment(first_seen(event))) is not None), None)


def _condition(pod: Row, *kinds: str) -> datetime | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") in kinds and condition.get("status") == "True":
            return parse_moment(condition.get("lastTransitionTime"))
    return None


def _ready(pod: Row) -> datetime | None:
    return _condition(pod, "Ready", WAS_READY)


# Facts of a pod's node and its resources, under the names of a trial's environment; a pod that never started has them too.


JOB_FACT = "kubernetes.job"
"""Fact: the Job of a JobSet that created the pod."""

# Labels by fact, in order of precedence. They come from Kubernetes and the GPU feature discoveries; clouds' own names of a product are facts
# of their own (PRODUCT_LABELS), and `gpu.model` is the same in every vocabulary.
_LABELS: dict[str, tuple[str, ...]] = {
    "host.instance_type": ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    "host.region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    "host.zone": ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    **{fact: tuple(label for label, own in PRODUCT_LABELS.items() if own == fact) for fact in PRODUCT_LABELS.values()},
    "gpu.sharing_strategy": ("nvidia.com/gpu.sharing-strategy",),
    "gpu.sharing_strategy_gke": ("cloud.google.com/gke-gpu-sharing-strategy",),
    "gpu.replicas": ("nvidia.com/gpu.replicas",),
    "gpu.mig_size_gke": ("cloud.google.com/gke-gpu-partition-size",),
    "gpu.partitions": ("amd.com/compute-memory-partition",),
    "gpu.memory_mib": ("nvidia.com/gpu.memory",),
    "gpu.mig_strategy": ("nvidia.com/mig.strategy",),
    "driver.version": ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version"),
    "cuda.version": ("nvidia.com/cuda.runtime-version.full",),
}
_PARTS = {
    "driver.version": [f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev")],
    "cuda.version": [f"nvidia.com/cuda.runtime.{part}" for part in ("major", "minor")],
}
"""Labels of older feature discoveries, which split a version."""
_NUMBERS = ("gpu.memory_mib",)
_INFO = {
    "kubernetes.version": "kubeletVersion",
    "kubernetes.runtime": "containerRuntimeVersion",
    "os.kernel": "kernelVersion",
    "os.name": "osImage",
    "os.architecture": "architecture",
}
_JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def pod_facts(pod: Row, events: Sequence[Row], node: Row | None) -> dict[str, Scalar]:
    """Facts of the pod (`image`, `image_id`, `image_cached`, `image_bytes`, `image_pull_s` in seconds, `qos_class`, `kubernetes.job`) and of its
    node; an unknown fact is absent. `events`: about the pod."""
    facts = {**({} if node is None else node_labels_facts(node)), **_of_image(pod, events, node)}
    labels = pod["metadata"].get("labels") or {}
    facts |= {
        "qos_class": (pod.get("status") or {}).get("qosClass"),
        JOB_FACT: next((labels[label] for label in _JOB_LABELS if label in labels), None),
    }
    return {key: value for key, value in sorted(facts.items()) if value is not None}


def node_labels_facts(node: Row) -> dict[str, Scalar]:
    """A node's own facts; None for what its labels do not show."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    facts: dict[str, Scalar] = {key: info.get(field) for key, field in _INFO.items()}
    for key, candidates in _LABELS.items():
        facts[key] = next((labels[label] for label in candidates if label in labels), None) or _join_labels(labels, _PARTS.get(key, []))
    for key in _NUMBERS:
        text = facts[key]
        facts[key] = int(text) if isinstance(text, str) and text.isdigit() else None
    gpus = NodeGpus(node, "nvidia.com/gpu")
    return facts | {"gpu.model": gpus.model, "gpu.count": gpus.cards}


def _join_labels(labels: Mapping[str, str], parts: Sequence[str]) -> str | None:
    return ".".join(labels[part] for part in parts if labels.get(part)) or None


def _of_image(pod: Row, events: Sequence[Row], node: Row | None) -> dict[str, Scalar]:
    containers = (pod.get("spec") or {}).get("containers") or ()
    image = next((str(each["image"]) for each in containers if each.get("name") == CONTAINER and each.get("image")), None)
    status = harness_status(pod)
    image_id = str(status.get("imageID") or "").removeprefix("docker-pullable://") or None
    came = image_pull(pod, events)
    size = came.size if came.size is not None else _image_bytes(node, {image, image_id, status.get("image")}.__contains__)
    return {"image": image, "image_id": image_id, "image_cached": came.cached, "image_pull_s": came.seconds, "image_bytes": size}


def _image_bytes(node: Row | None, is_it: Callable[[str], bool]) -> int | None:
    """Bytes of an image as its node reports them; a node lists only its largest images."""
    images = ((node or {}).get("status") or {}).get("images") or ()
    return next((image.get("sizeBytes") for image in images if any(map(is_it, image.get("names") or ()))), None)


_WHOLE_LAUNCH = ("admitted", "scheduled", "started", "ready", "finished")
"""Points that a launch reaches with its last pod."""
_IMAGE = ("image_pulling", "image_pulled")
"""Points that a pod may skip: its node may have the image."""


def pod_records(observation: LaunchObservation) -> tuple[PodRecord, ...]:
    """One record for each observed pod, by rank."""
    return tuple(_record(pod, observation) for pod in sorted(observation.pods, key=lambda pod: (rank_of(pod), name_of(pod))))


def launch_events(observation: LaunchObservation, requested_at: datetime) -> tuple[Event, ...]:
    """The launch's timeline: `requested` by the launcher's clock; `created` (its first pod) and the points of its last pod by the cluster's.
    A point that not all expected pods have reached is absent."""
    reached = [{event.name: event.utc for event in pod_timeline(pod, events_of(pod, observation.events))} for pod in observation.pods]
    moments: dict[str, datetime] = {}
    if created := [times["requested"] for times in reached if "requested" in times]:
        moments["created"] = min(created)
    for name in (*_WHOLE_LAUNCH, *_IMAGE):
        times = [each[name] for each in reached if name in each]
        if times and (name in _IMAGE or len(times) >= observation.expected):
            moments[name] = max(times)
    order = ("created", "admitted", "scheduled", *_IMAGE, "started", "ready", "finished")
    requested = Event(name="requested", utc=requested_at, clock="launcher")
    return (requested, *(Event(name=name, utc=moments[name], clock="cluster") for name in order if name in moments))


def pod_reason(pod: Row) -> str | None:
    """The cluster's reason why the pod ended or waits, such as Evicted, OOMKilled or Unschedulable; None without one."""
    status = pod.get("status") or {}
    state = harness_status(pod).get("state") or {}
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    unplaced = conditions.get("PodScheduled") or {}
    reasons = (
        status.get("reason"),
        *((conditions.get(kind) or {}).get("reason") for kind in ("DisruptionTarget", "TerminationTarget")),
        (state.get("terminated") or {}).get("reason"),
        (state.get("waiting") or {}).get("reason"),
        unplaced.get("reason") if unplaced.get("status") != "True" else None,
    )
    return next((str(word) for word in reasons if word and word not in ("Completed", "ContainerCreating")), None)


def _record(pod: Row, observation: LaunchObservation) -> PodRecord:
    events = events_of(pod, observation.events)
    node = (pod.get("spec") or {}).get("nodeName")
    notices = [_notice(event) for event in events if event_time(event)]
    return PodRecord(
        name=name_of(pod),
        rank=rank_of(pod),
        uid=pod["metadata"].get("uid"),
        node=node,
        facts=pod_facts(pod, events, observation.nodes.get(node) if node else None),
        events=pod_timeline(pod, events),
        notices=tuple(sorted(notices, key=lambda notice: notice.utc)),
        exit_code=terminated(pod).get("exitCode"),
        reason=pod_reason(pod),
    )


def _notice(event: Row) -> Notice:
    """The event, at the time of its last occurrence."""
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    return Notice(
        utc=datetime.fromisoformat(event_time(event).replace("Z", "+00:00")),
        kind="Warning" if event.get("type") == "Warning" else "Normal",
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or "").strip(),
        count=max(1, int(count)),
    )
