"""Facts of nodes from the API alone, under the names of a trial's environment where they mean the same.

NVIDIA's and AMD's discoveries label GPUs and driver, node feature discovery labels the CPU, and every kubelet reports the rest. A missing
discovery is noted, not a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.launch.cluster.api import API_PATIENCE_S, ClusterApi
from plumbline.launch.cluster.manifests.trial_pod import node_selector, tolerations
from plumbline.launch.cluster.node_gpus import PRODUCT, NodeGpus
from plumbline.launch.cluster.observe.node_room import amounts, nothing_selected, selector_text, untolerated_taints
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.cluster.observe.pod_records import node_labels_facts
from plumbline.launch.failures import ApiRefused
from plumbline.launch.launcher import ProviderFacts
from plumbline.metrics.formatting import shorten
from plumbline.results import Scalar

_LABELS: dict[str, str] = {
    "gpu.memory": "amd.com/gpu.vram",
    "gpu.compute_units": "amd.com/gpu.cu-count",
    "gpu.mig_config": "nvidia.com/mig.config",
    "cpu.smt": "feature.node.kubernetes.io/cpu-hardware_multithreading",
}
_POOLS = ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool")
_CPU = [f"feature.node.kubernetes.io/cpu-model.{part}" for part in ("vendor_id", "family", "id")]
_FEATURES = "feature.node.kubernetes.io/"
_INSTALL = {
    "nvidia": (
        "nvidia.com/gpu.product and nvidia.com/cuda.driver-version.full",
        "install NVIDIA's GPU feature discovery: part of the GPU operator, or gfd.enabled=true in the device plugin's chart",
    ),
    "amd": (
        "amd.com/gpu.product-name and amd.com/gpu.driver-version",
        "install AMD's node labeller: part of the AMD GPU operator, or labeller.enabled=true in the device plugin's chart",
    ),
}


def discover_nodes(provider: Provider, launcher: KubernetesLauncher, *, patience_s: float = API_PATIENCE_S) -> ProviderFacts:
    """The ready nodes that a pod of the provider could use. If no node has the declared GPU, nodes with the declared labels and another GPU
    count: the pool's hardware was exchanged.

    Unreachable after `patience_s` seconds without an answer, BadDeclaration without a usable connection, ApiRefused if nodes cannot be
    listed.
    """
    api = ClusterApi(launcher.connection, launcher.namespace, patience_s=patience_s)
    selector, exchanged = node_selector(provider), False
    try:
        selected = api.nodes(selector_text(selector))
        if not selected and launcher.node_selector and launcher.node_selector != selector:
            selected = [n for n in api.nodes(selector_text(launcher.node_selector)) if PRODUCT in (n["metadata"].get("labels") or {})]
            exchanged = bool(selected)
        others = [] if selected else api.nodes()
    except ApiRefused as refusal:
        remedy = "apply k8s/provider again; `plumbline cluster doctor` names the missing verbs"
        raise ApiRefused(refusal.status, f"the nodes of {provider.name} cannot be listed: {refusal.detail}; {remedy}") from None
    whole: dict[str, Scalar] = {}
    with suppress(ApiRefused):  # some clusters hide it; each kubelet reports its own
        whole["kubernetes.server_version"] = api.version()
    gpus = provider.accelerator.kind != "cpu"
    why = {n["metadata"]["name"]: NodeGpus(n, launcher.gpu_resource).unready(gpus) for n in selected}
    usable = [n for n in selected if not why[n["metadata"]["name"]] and not untolerated_taints(n, tolerations(provider))]
    if not usable:
        return ProviderFacts((), whole, (_no_usable_node(others, selected, selector, launcher.gpu_resource),))
    nodes = tuple(node_facts(node, launcher.gpu_resource) for node in usable)
    notes = (
        [
            f"no node has {selector_text({k: v for k, v in selector.items() if k not in launcher.node_selector})} now, so trials of {provider.name} cannot be scheduled"
        ]
        if exchanged
        else []
    )
    names = tuple(sorted(node["metadata"]["name"] for node in usable))
    return ProviderFacts(nodes, whole, (*notes, *_missing_labels(provider, usable, nodes)), names)


def node_facts(node: Row, gpu_resource: str) -> dict[str, Scalar]:
    """A node's facts, sorted; unknown ones are absent."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    facts = node_labels_facts(node)
    # A trial's own os.name is its image's.
    facts["os.image"] = facts.pop("os.name", None)
    facts |= {name: labels.get(label) for name, label in _LABELS.items()}
    facts["cpu.smt"] = {"true": True, "false": False}.get(str(facts["cpu.smt"]))
    facts["cpu.model_id"] = "/".join(labels[part] for part in _CPU) if all(part in labels for part in _CPU) else None
    facts["host.node_pool"] = next((labels[pool] for pool in _POOLS if pool in labels), None)
    # A device plugin that has just started advertises none yet.
    facts["gpu.allocatable"] = int(amounts(node["status"].get("allocatable")).get(gpu_resource, 0)) or None
    return {name: value for name, value in sorted(facts.items()) if value is not None}


def _no_usable_node(others: Sequence[Row], selected: Sequence[Row], selector: Mapping[str, str], gpu_resource: str) -> str:
    labels = ", ".join(f"{k}={v}" for k, v in selector.items()) or "any labels"
    if selected:
        return f"facts unknown: none of {len(selected)} nodes with {labels} is ready and tolerated"
    line = nothing_selected([NodeGpus(node, gpu_resource) for node in others], selector, labels, gpu_resource)
    return f"facts unknown: {line.found}" + (f"; {line.remedy}" if line.remedy else "")


def _missing_labels(provider: Provider, rows: Sequence[Row], nodes: Sequence[Mapping[str, Scalar]]) -> list[str]:
    notes = []
    if provider.accelerator.kind in _INSTALL:
        labels, remedy = _INSTALL[provider.accelerator.kind]
        blind = [r["metadata"]["name"] for r, n in zip(rows, nodes, strict=True) if not {"driver.version", "gpu.model"} <= n.keys()]
        if blind:
            notes.append(
                f"{len(blind)} of {len(nodes)} nodes ({shorten(blind)}) lack the labels {labels}, so only a trial detects a changed GPU or driver "
                f"there; {remedy}"
            )
    if not any(label.startswith(_FEATURES) for row in rows for label in row["metadata"].get("labels") or {}):
        notes.append("no node has labels of node feature discovery, so only a trial detects a changed CPU; install node-feature-discovery")
    return notes
