"""One check of a rented cluster's uptime: its API answers, and as many of the provider's nodes are ready as are rented."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.manifests.trial_pod import node_selector
from plumbline.launch.cluster.node_gpus import NodeGpus
from plumbline.launch.cluster.observe.node_room import selector_text
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.failures import (
    ApiRefused,
    BadDeclaration,
    InMaintenance,
    ProviderFault,
    RequestFailed,
    ServerError,
    Unreachable,
    is_refusal_of_host,
)
from plumbline.metrics.formatting import format_count, shorten

_TIMEOUT_S = 20.0


def check_cluster(provider: Provider, launcher: KubernetesLauncher) -> float:
    """Seconds until the API listed the provider's nodes, of which enough are ready. One request; nothing is started.

    ServerError where the API refuses connections or has trouble of its own, ProviderFault where nodes are not ready; Unreachable where the network
    is silent or nodes are not there, which an autoscaler may have removed. BadDeclaration for our own credentials and rights. InMaintenance where
    the cordoned nodes would be enough.
    """
    selector = selector_text(node_selector(provider))
    query = {"query": {"labelSelector": selector}} if selector else {}
    try:
        answer = ClusterApi(launcher.connection, launcher.namespace, timeout_s=_TIMEOUT_S).send_once("GET", "/api/v1/nodes", **query)
    except RequestFailed as failed:
        own = failed.status is None or failed.status >= 500
        raise (ServerError if own and is_refusal_of_host(str(failed)) else Unreachable)(str(failed)) from failed
    except ApiRefused as refusal:
        raise BadDeclaration(
            f"the nodes of {provider.name} cannot be listed: {refusal}; `plumbline cluster doctor {provider.name}` names the remedy"
        ) from refusal
    if answer.row.get("kind") != "NodeList":  # a proxy's page is no answer of the API
        raise Unreachable(f"what answered for the API of {provider.name} sent no list of nodes")
    rented = provider.nodes if provider.watch.uptime is None else provider.watch.uptime.ready_nodes_of(provider.nodes)
    judge_nodes(answer.row.get("items") or [], rented, launcher.gpu_resource, gpus=provider.accelerator.kind != "cpu")
    return answer.seconds


def judge_nodes(nodes: Sequence[Row], rented: int, gpu_resource: str, *, gpus: bool) -> None:
    """Return if `rented` of the nodes are ready, with all their GPUs; else raise what keeps them from it, as far as the API proves it."""
    every = [NodeGpus(node, gpu_resource) for node in nodes]
    why = {n.name: n.unready(gpus) or (n.loss if gpus else None) for n in every}
    closed = [n.name for n in every if why[n.name] and n.maintained]
    unclear = [n.name for n in every if why[n.name] and not n.maintained and n.unclear]
    lost = [n.name for n in every if why[n.name] and not n.maintained and not n.unclear]
    short = rented - sum(reason is None for reason in why.values())
    if short <= 0:
        return
    absent = max(rented - len(every), 0)
    seen = f"{rented - short} of {format_count(rented, 'node')} ready"
    failed = [n.name for n in every if why[n.name] and n.change_failed and not n.sick]
    if failed and short <= len(closed):
        raise BadDeclaration(f"{seen}; {shorten(failed, 2)}: {why[failed[0]]}: the GPU operator of this cluster failed, see its own log")
    if lost and short > len(closed) + len(unclear) + absent:
        raise ProviderFault(f"{seen}; {shorten(lost, 2)}: {why[lost[0]]}")
    if short <= len(closed):
        raise InMaintenance(f"{seen}; {shorten(closed, 2)}: {why[closed[0]]}")
    if unclear:
        raise Unreachable(f"{seen}; {shorten(unclear, 2)}: {why[unclear[0]]}: whose it is, is not shown")
    raise Unreachable(f"{seen}; {format_count(absent, 'node')} not there, removed or lost: the API does not say which")
