"""Pure: what was seen of a launch, as a small JSON row.

A trigger's row is stored in Airflow's database and printed into the task's log: it holds what tells how the pods fared, and nothing of what
they were given (no environment, arguments or volumes).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from plumbline.launch.cluster.base import Row, Seen, Stop

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
        return value if len(value) <= _TEXT else value[-_TEXT:]  # the end: that is where a log says why
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    return value


def trimmed_pod(pod: Row) -> Row:
    """The parts of a pod that tell how it fares. Its labels stay whole: by them it is found, and its rank is among them."""
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


def trimmed_event(event: Row) -> Row:
    """The parts of an event that say what happened to which pod, and when."""
    return {
        "metadata": _pick(event.get("metadata"), _EVENT_METADATA),
        "involvedObject": _pick(event.get("involvedObject"), _INVOLVED),
        **_pick(event, _EVENT),
    }


def trimmed_node(node: Row, pods: Iterable[Row]) -> Row:
    """The parts of a node that say what it is; of the images that it holds, those that `pods` run (nodes list dozens)."""
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
    """When an event was last seen, as the API writes it; empty if it says nothing. Texts of one cluster sort by time."""
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(last or (event.get("metadata") or {}).get("creationTimestamp") or "")


def encode(seen: Seen) -> dict[str, Any]:
    """`seen` as a JSON row."""
    return {
        "expected": seen.expected,
        "pods": [trimmed_pod(pod) for pod in seen.pods],
        "gone": sorted(seen.gone),
        "events": [trimmed_event(event) for event in seen.events],
        "nodes": {name: trimmed_node(node, seen.pods) for name, node in seen.nodes.items()},
        "stop": None if seen.stop is None else asdict(seen.stop),
    }


def decode(row: dict[str, Any]) -> Seen:
    """What `encode` made a row of; other keys of the row are ignored."""
    stop = row["stop"]
    return Seen(
        expected=row["expected"],
        pods=tuple(row["pods"]),
        gone=frozenset(row["gone"]),
        events=tuple(row["events"]),
        nodes=row["nodes"],
        stop=None if stop is None else Stop(**stop),
    )
