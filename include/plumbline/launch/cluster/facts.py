"""What a cluster's API tells of the nodes that a provider's trials would run on: no pod, no GPU.

The names are those of a trial's environment where they mean the same. NVIDIA's and AMD's discoveries write a node's GPUs and driver
into its labels, node feature discovery its CPU; the rest every kubelet tells. Where a discovery is missing, that is said, and no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.launch.cluster.api import PATIENCE_S, ClusterApi, Refused
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.doctor.room import amounts, nothing_selected, ready, untolerated
from plumbline.launch.cluster.placement import PRODUCT, node_selector, tolerations
from plumbline.launch.cluster.pod_facts import of_node
from plumbline.launch.looking import Look
from plumbline.results import Scalar

_LABELS: dict[str, str] = {
    "gpu.memory": "amd.com/gpu.vram",
    "gpu.compute_units": "amd.com/gpu.cu-count",
    "gpu.mig_config": "nvidia.com/mig.config",
    "gpu.sharing_strategy": "nvidia.com/gpu.sharing-strategy",
    "gpu.replicas": "nvidia.com/gpu.replicas",
    "cpu.smt": "feature.node.kubernetes.io/cpu-hardware_multithreading",
}
_POOLS = ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool")
_CPU = [f"feature.node.kubernetes.io/cpu-model.{part}" for part in ("vendor_id", "family", "id")]
_FEATURES = "feature.node.kubernetes.io/"
_INSTALL = {
    "nvidia": (
        "nvidia.com/gpu.product and nvidia.com/cuda.driver-version.full",
        "install NVIDIA's GPU feature discovery: it comes with the GPU operator, and with the device plugin's chart by gfd.enabled=true",
    ),
    "amd": (
        "amd.com/gpu.product-name and amd.com/gpu.driver-version",
        "install AMD's node labeller: it comes with the AMD GPU operator, and with the device plugin's chart by labeller.enabled=true",
    ),
}


def look(provider: Provider, launcher: KubernetesLauncher, *, patience_s: float = PATIENCE_S) -> Look:
    """The nodes that are ready and that a pod of the provider could be placed on. Where nodes with the declared labels show another GPU than
    the declared one, and none shows that, they are looked at all the same: it is the pool whose hardware was exchanged.

    Unreachable if the API gives no answer for `patience_s` seconds, BadDeclaration without a usable connection, Refused if nodes may not
    be listed.
    """
    api = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s)
    selector, exchanged = node_selector(provider), False
    try:
        selected = api.nodes(_text(selector))
        if not selected and launcher.node_selector and launcher.node_selector != selector:
            selected = [n for n in api.nodes(_text(launcher.node_selector)) if PRODUCT in (n["metadata"].get("labels") or {})]
            exchanged = bool(selected)
        others = [] if selected else api.nodes()
    except Refused as refusal:
        remedy = "apply k8s/provider again; `plumbline cluster doctor` names the verbs that are missing"
        raise Refused(refusal.status, f"the nodes of {provider.name} cannot be listed: {refusal.detail}; {remedy}") from None
    whole = _version(api)
    usable = [n for n in selected if ready(n) and not untolerated(n, tolerations(provider))]
    if not usable:
        return Look((), whole, (_none(others, selected, selector, launcher.gpu_resource),))
    nodes = tuple(node_facts(node, launcher.gpu_resource) for node in usable)
    notes = [f"no node has {PRODUCT}={selector[PRODUCT]} any more: trials of {provider.name} find no place"] if exchanged else []
    return Look(nodes, whole, (*notes, *_missing(provider, usable, nodes)))


def _text(selector: Mapping[str, str]) -> str:
    return ",".join(f"{label}={value}" for label, value in selector.items())


def _version(api: ClusterApi) -> dict[str, Scalar]:
    try:
        return {"kubernetes.server_version": api.version()}
    except Refused:  # some clusters keep it to themselves; each kubelet tells its own
        return {}


def node_facts(node: Row, gpu_resource: str) -> dict[str, Scalar]:
    """What one node tells of itself, sorted; what it does not tell is absent."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    found = of_node(node)
    # A trial's own os.name is its image's.
    found["os.image"] = found.pop("os.name", None)
    found |= {name: labels.get(label) for name, label in _LABELS.items()}
    found["cpu.smt"] = {"true": True, "false": False}.get(str(found["cpu.smt"]))
    found["cpu.model_id"] = "/".join(labels[part] for part in _CPU) if all(part in labels for part in _CPU) else None
    found["host.node_pool"] = next((labels[pool] for pool in _POOLS if pool in labels), None)
    # A device plugin that has just started offers none yet.
    found["gpu.allocatable"] = int(amounts(node["status"].get("allocatable")).get(gpu_resource, 0)) or None
    return {name: value for name, value in sorted(found.items()) if value is not None}


def _none(others: Sequence[Row], selected: Sequence[Row], selector: Mapping[str, str], gpu_resource: str) -> str:
    shown = ", ".join(f"{k}={v}" for k, v in selector.items()) or "any labels"
    if selected:
        return f"none of {len(selected)} nodes with {shown} is ready and open to trials now: nothing is concluded"
    line = nothing_selected(others, selector, shown, gpu_resource)
    return f"no node to look at now, so nothing is concluded: {line.found}" + (f"; {line.remedy}" if line.remedy else "")


def _missing(provider: Provider, rows: Sequence[Row], nodes: Sequence[Mapping[str, Scalar]]) -> list[str]:
    notes = []
    if provider.accelerator.kind in _INSTALL:
        labels, remedy = _INSTALL[provider.accelerator.kind]
        blind = [r["metadata"]["name"] for r, n in zip(rows, nodes, strict=True) if not {"driver.version", "gpu.product"} <= n.keys()]
        if blind:
            names = ", ".join(blind[:3]) + (f" and {len(blind) - 3} more" if len(blind) > 3 else "")
            notes.append(
                f"{len(blind)} of {len(nodes)} nodes ({names}) lack the labels {labels}: a change of GPU or driver there goes unseen until "
                f"a trial runs; {remedy}"
            )
    if not any(label.startswith(_FEATURES) for row in rows for label in row["metadata"].get("labels") or {}):
        notes.append(
            "no node has labels of node feature discovery: a change of CPU goes unseen until a trial runs; install node-feature-discovery"
        )
    return notes
