"""Which nodes a trial's pods may and should run on."""

from __future__ import annotations

from plumbline.declarations import Provider, Trial
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.names import LAUNCH, label_value, launch_name
from plumbline.launch.cluster.provider import launcher_of

PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOSTNAME = "kubernetes.io/hostname"


def node_selector(provider: Provider) -> dict[str, str]:
    """Labels that a node must carry.

    The declared ones; and the declared accelerator's product as GPU feature discovery writes it, unless the declaration names a product or
    an instance type, which implies one also where that discovery is not installed.
    """
    declared = launcher_of(provider).node_selector
    accelerator = provider.accelerator
    found = dict(declared)
    if accelerator.kind == "nvidia" and accelerator.product is not None and not {PRODUCT, INSTANCE_TYPE} & declared.keys():
        found[PRODUCT] = label_value(accelerator.product)
    return dict(sorted(found.items()))


def tolerations(provider: Provider) -> list[Row]:
    """The declared tolerations, and on a GPU provider that of the taint which keeps other pods off GPU nodes (named like the resource)."""
    launcher = launcher_of(provider)
    found: list[Row] = [item.model_dump(exclude_none=True) for item in launcher.tolerations]
    if provider.accelerator.kind != "cpu" and not any(item["key"] == launcher.gpu_resource for item in found):
        found.append({"key": launcher.gpu_resource, "operator": "Exists", "effect": "NoSchedule"})
    return found


def affinity(trial: Trial) -> Row:
    """For a gang: pods near each other and each on a node of its own.

    Both are preferences: a small cluster runs the gang all the same, and the record says where its pods were.
    """
    found: Row = {}
    if trial.workload.nodes > 1:
        topology = launcher_of(trial.provider).topology
        if topology is not None:
            found["podAffinity"] = _preferred(trial, topology)
        found["podAntiAffinity"] = _preferred(trial, HOSTNAME)
    return found


def avoid_nodes(trial: Trial, spec: Row) -> None:
    """Keep the pod off the nodes that a trial with a fresh node avoids, whatever node affinity its specification has already."""
    if trial.placement != "fresh_node" or not trial.avoid_nodes:
        return
    # By name: on some clouds the host name label differs from it. Fields take one value each, and all of a term must hold.
    avoid = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in trial.avoid_nodes]
    nodes = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = nodes.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # One of the terms must hold, so that each must avoid them.
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, "matchFields": [*(term.get("matchFields") or ()), *avoid]} for term in terms]


def _preferred(trial: Trial, key: str) -> Row:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {LAUNCH: launch_name(trial)}}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
