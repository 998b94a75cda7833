"""Rows of objects that clusters write themselves: nodes, events, and what is said of a pod's quality of service."""

from __future__ import annotations

from tests.fakes.kubernetes_api.store import Row, micros, seconds

GPU_LABELS = {
    "kubernetes.io/hostname": "{name}",
    "node.kubernetes.io/instance-type": "gpu-8",
    "topology.kubernetes.io/region": "region-1",
    "topology.kubernetes.io/zone": "region-1a",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/cuda.driver-version.full": "570.86.15",
    "nvidia.com/cuda.runtime-version.full": "12.8",
}


def node_row(name: str, minor: int, labels: dict[str, str] | None, gpus: int, images: dict[str, int] | None) -> Row:
    """A node of a cluster 1.<minor>; without `labels` it has those of a GPU node."""
    capacity = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "6Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    marks = {key: value.format(name=name) for key, value in GPU_LABELS.items()} if labels is None else labels
    info = dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), "fake") | {
        "kernelVersion": "6.8.0-1021",
        "osImage": "Ubuntu 24.04.1 LTS",
        "containerRuntimeVersion": "containerd://1.7.24",
        "kubeletVersion": f"v1.{minor}.0",
        "architecture": "amd64",
        "operatingSystem": "linux",
    }
    held = [{"names": [reference], "sizeBytes": size} for reference, size in (images or {}).items()]
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "nodeInfo": info,
        "images": held,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "labels": marks}, "spec": {}, "status": status}


def event_row(about: Row, reason: str, message: str, kind: str, by: str, number: int) -> Row:
    """An Event about an object, said once, now."""
    meta, now = about["metadata"], seconds()
    micro = by == "default-scheduler"  # writes events of the newer kind: with a MicroTime and without the old fields
    return {
        "metadata": {"name": f"{meta['name']}.{number:x}", "namespace": meta["namespace"]},
        "involvedObject": {key: about.get(key) for key in ("kind", "apiVersion")}
        | {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "reason": reason,
        "message": message,
        "type": kind,
        "source": {} if micro else {"component": by},
        "firstTimestamp": None if micro else now,
        "lastTimestamp": None if micro else now,
        "count": None if micro else 1,
        "eventTime": micros() if micro else None,
        "reportingComponent": by,
        "reportingInstance": "",
    }


def quality(pod: Row) -> str:
    """The pod's QoS class."""
    resources = [container.get("resources") or {} for container in pod["spec"]["containers"]]
    if not any(held.get("requests") or held.get("limits") for held in resources):
        return "BestEffort"
    for held in resources:
        limits, requests = held.get("limits") or {}, {**(held.get("limits") or {}), **(held.get("requests") or {})}
        if any(key not in limits or limits[key] != requests[key] for key in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"
