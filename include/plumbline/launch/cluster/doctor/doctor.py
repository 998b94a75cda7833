"""Check a cluster as a launch would use it: one check at a time, each with its remedy."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.declarations.providers.serving import Serving
from plumbline.launch import stores
from plumbline.launch.cluster import node_gpus
from plumbline.launch.cluster.api import ApiAnswer, ClusterApi, NoAnswer
from plumbline.launch.cluster.doctor import probe_pod
from plumbline.launch.cluster.doctor.credentials import credential_lifetime, credentials_rejected, renews_credentials
from plumbline.launch.cluster.doctor.permissions import Permission, compare_permissions, granted_permissions, required_permissions
from plumbline.launch.cluster.manifests.serving import missing_scaler
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.observe import node_room
from plumbline.launch.cluster.observe.observation import Row
from plumbline.launch.cluster.short_pod import PodPatience
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable
from plumbline.results.store_check import StoreFault, check_access

_TIMEOUT_S, _PATIENCE_S = 15.0, 20.0
MAX_CLOCK_DIFFERENCE_S = 2.0
"""A larger difference makes the cluster's times in a timeline inconsistent with those measured here."""


def examine_cluster(
    provider: Provider, launcher: KubernetesLauncher, trials: Sequence[Trial], *, patience: PodPatience | None, gpu: bool = True
) -> Iterator[DoctorCheck]:
    """Check the cluster and leave nothing behind.

    `trials`: at least one, which must fit (`possible_trials`). `patience`: of the pods, one for each image; None starts no pod. `gpu`: the pods
    take a trial's accelerators.
    """
    try:
        cluster = ClusterApi(launcher.connection, launcher.namespace, patience_s=_PATIENCE_S, timeout_s=_TIMEOUT_S)
        cluster.open()
    except BadDeclaration as error:
        yield failed("connection", str(error), f"add the Airflow connection {launcher.connection}: docs/clusters.md")
        yield _store_from_here(provider, launcher)
        return
    try:
        yield from _with_the_api(cluster, provider, launcher, trials, patience, gpu)
    except NoAnswer as error:
        yield failed("reachable", f"{cluster.configuration.host}: {error}", remedy_for(error.kind))
    except Unreachable as error:
        yield failed("reachable", str(error), remedy_for(""))
    yield _store_from_here(provider, launcher)


def _with_the_api(
    cluster: ClusterApi,
    provider: Provider,
    launcher: KubernetesLauncher,
    trials: Sequence[Trial],
    patience: PodPatience | None,
    gpu: bool,
) -> Iterator[DoctorCheck]:
    version = cluster.ask("GET", "/version")
    title = f"Kubernetes {version.row['gitVersion']} at" if "gitVersion" in version.row else "the API at"
    yield ok("reachable", f"{title} {cluster.configuration.host} answers in {version.seconds * 1000:.0f} ms")
    yield _clock(version, datetime.now(timezone.utc))
    review = cluster.ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body=_review("Rules", {"namespace": cluster.namespace})
    )
    if review.status == 401:
        yield credentials_rejected(review.status, review.detail)
        return
    yield credential_lifetime(cluster.configuration, datetime.now(timezone.utc), renewed=renews_credentials(launcher.connection))
    yield from _permissions(cluster, launcher, review)
    if launcher.queue is not None:
        yield _queue(cluster, launcher.queue)
    if launcher.serving is not None:
        yield _scaler(cluster, launcher.serving)
    now = datetime.now(timezone.utc)
    pods = {trial.workload.name: pod_manifest(trial, requested_at=now) for trial in trials}
    kinds = {trial.workload.kind: with_most(pods[trial.workload.name], list(pods.values())) for trial in reversed(trials)}
    largest = next(reversed(kinds.values()))
    lanes = [largest] * max(trial.workload.nodes for trial in trials) * launcher.trials_at_a_time
    nodes = yield from _room(cluster, provider, launcher, largest, lanes, pods)
    admitted = yield from _admission(cluster, largest)
    if patience is None:
        yield skipped("pods", "not started, as asked: nothing is said of images, devices and the store as pods see it")
        return
    if not nodes or not admitted:
        yield unknown("pods", "not started: a trial's pod would get no node", "a node that can hold one, and its admission")
        return
    checked: set[str] = set()
    gpus_requested = int(node_room.requested_resources(largest).get(launcher.gpu_resource, 0)) if gpu else 0
    for kind, largest in reversed(kinds.items()):
        image = launcher.image_for(kind)
        if image is not None and image not in checked:
            checked.add(image)
            pod = probe_pod.doctor_pod_manifest(largest, launcher, time.time(), patience, gpus=gpus_requested)
            yield from probe_pod.run_doctor_pod(cluster, pod, kind, patience, provider, gpus_requested)


def with_most(pod: Row, pods: Sequence[Row]) -> Row:
    """The pod, with the most of each resource and the largest volumes that any of `pods` requests: no single workload needs the most of all."""
    from kubernetes.utils.quantity import parse_quantity

    row = copy.deepcopy(pod)
    requests = [other["spec"]["containers"][0]["resources"]["requests"] for other in pods]
    most: dict[str, str] = {}
    for name, value in (item for each in requests for item in each.items()):
        most[name] = max(most.get(name, value), value, key=parse_quantity)
    row["spec"]["containers"][0]["resources"] = {"requests": most, "limits": dict(most)}
    for volume in row["spec"]["volumes"]:
        sizes = [
            other["emptyDir"]["sizeLimit"]
            for each in pods
            for other in each["spec"]["volumes"]
            if other["name"] == volume["name"] and "sizeLimit" in (other.get("emptyDir") or {})
        ]
        if sizes:
            volume["emptyDir"]["sizeLimit"] = max(sizes, key=parse_quantity)
    return row


def _clock(answer: ApiAnswer, now: datetime) -> DoctorCheck:
    """The server's Date has whole seconds and is half a round trip old."""
    if answer.date is None:
        return unknown("clock", "the API's responses have no date", "a Date header from the API server or the proxy before it")
    off = (answer.date - now).total_seconds() + 0.5 + answer.seconds / 2
    uncertain = 0.5 + answer.seconds / 2
    if abs(off) - uncertain > MAX_CLOCK_DIFFERENCE_S:
        way = "ahead of" if off > 0 else "behind"
        return failed(
            "clock", f"the cluster is {abs(off):.0f} s {way} this machine", "repair the time service (chrony, NTP) of the wrong one"
        )
    return ok("clock", f"cluster and this machine agree within {abs(off) + uncertain:.1f} s")


def _permissions(cluster: ClusterApi, launcher: KubernetesLauncher, review: ApiAnswer) -> Iterator[DoctorCheck]:
    needed = required_permissions(launcher)
    status: Row = review.row.get("status") or {}
    if review.ok and not status.get("incomplete"):
        yield from compare_permissions(granted_permissions(status.get("resourceRules") or []), needed, cluster.namespace)
        return
    # An authorizer outside the cluster (a webhook) cannot list permissions, but answers for each verb.
    has = frozenset(each for each in needed if _is_allowed(cluster, each))
    yield compare_permissions(has, needed, cluster.namespace)[0]
    yield unknown(
        "least privilege", "the cluster cannot list all permissions of these credentials", "its administrator's list of what they may do"
    )


def _is_allowed(cluster: ClusterApi, permission: Permission) -> bool:
    resource, _, sub = permission.resource.partition("/")
    attributes = {"group": permission.group, "resource": resource, "subresource": sub, "verb": permission.verb}
    inside = {} if resource == "nodes" else {"namespace": cluster.namespace}
    body = _review("Access", {"resourceAttributes": attributes | inside})
    answer = cluster.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    return bool((answer.row.get("status") or {}).get("allowed"))


def _review(what: str, spec: dict[str, Any]) -> Row:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": f"SelfSubject{what}Review", "spec": spec}


def _queue(cluster: ClusterApi, name: str) -> DoctorCheck:
    answer = cluster.ask("GET", f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{cluster.namespace}/localqueues/{name}")
    if answer.status == 404:
        return failed(
            "queue",
            f"LocalQueue {name} does not exist in {cluster.namespace}: {answer.detail}",
            "apply k8s/provider/components/kueue, or correct launcher.queue",
        )
    if not answer.ok:
        return unknown("queue", f"cannot be read: {answer.detail}", "the right to get localqueues (k8s/provider)")
    active = next((c for c in answer.row.get("status", {}).get("conditions") or [] if c["type"] == "Active"), None)
    if active is not None and active["status"] != "True":
        return failed(
            "queue", f"LocalQueue {name} is not active: {active.get('message') or active.get('reason')}", "repair its ClusterQueue"
        )
    return ok("queue", f"LocalQueue {name} admits to {answer.row['spec'].get('clusterQueue')}")


def _scaler(cluster: ClusterApi, serving: Serving) -> DoctorCheck:
    try:
        missing = missing_scaler(serving, cluster.groups)
    except ApiRefused as refusal:
        return unknown("scaler", f"the API's groups cannot be read: {refusal}", "the right to read the API's groups")
    if missing is not None:
        return failed("scaler", *missing)
    if serving.scaling.by == "none":
        return skipped("scaler", "not applicable: one of yours, which is not read")
    return ok("scaler", "the API has what it needs")


def _room(
    cluster: ClusterApi, provider: Provider, launcher: KubernetesLauncher, largest: Row, lanes: Sequence[Row], pods: Mapping[str, Row]
) -> Generator[DoctorCheck, None, bool]:
    """Checks of nodes and quota; returns whether a pod could get a node. `lanes`: all pods that may run at a time; `pods`: by workload."""
    nodes = cluster.ask("GET", "/api/v1/nodes")
    running = cluster.ask("GET", cluster.path("Pod"))
    usable = False
    if not nodes.ok or not running.ok:
        yield unknown(
            "nodes", f"cannot be read: {(nodes if not nodes.ok else running).detail}", "the right to list nodes and pods (k8s/provider)"
        )
    else:
        rows, product = nodes.row["items"], provider.accelerator.product
        lines = node_room.check_nodes(rows, largest, running.row["items"], launcher.gpu_resource, product, _slices(cluster, launcher, rows))
        usable = lines[-1].status == "ok"
        yield from (
            replace(line, found=line.found + _most_demanding(line.found, pods))
            if (line.status, line.check) == ("failed", "room on a node")
            else line
            for line in lines
        )
    quotas = cluster.ask("GET", cluster.path("ResourceQuota"))
    if not quotas.ok:
        yield unknown("quota", f"cannot be read: {quotas.detail}", "the right to list resourcequotas (k8s/provider)")
    else:
        yield node_room.check_quota(quotas.row["items"], lanes, launcher.trials_at_a_time)
    return usable


def _most_demanding(found: str, pods: Mapping[str, Row]) -> str:
    """The workload with the largest request of each resource that is short, such as ` (most ephemeral-storage: pretrain-8b-8gpu)`."""
    from kubernetes.utils.quantity import parse_quantity

    requests = {name: pod["spec"]["containers"][0]["resources"]["requests"] for name, pod in pods.items()}
    named = []
    for resource in sorted({resource for each in requests.values() for resource in each if f"{resource} " in found}):
        asked = {name: parse_quantity(each[resource]) for name, each in requests.items() if resource in each}
        if len(set(asked.values())) > 1:
            named.append(f"most {resource}: {max(asked, key=lambda name: asked[name])}")
    return f" ({', '.join(named)})" if named else ""


def _slices(cluster: ClusterApi, launcher: KubernetesLauncher, nodes: Sequence[Row]) -> Sequence[Row]:
    """ResourceSlices, if a node with GPUs does not offer them as the resource; empty if the cluster has none or refuses."""
    if not any(n.has_gpus and not n.amount() for n in (node_gpus.NodeGpus(row, launcher.gpu_resource) for row in nodes)):
        return ()
    answers = (cluster.ask("GET", f"/apis/resource.k8s.io/{version}/resourceslices") for version in ("v1", "v1beta2", "v1beta1"))
    found: Sequence[Row] = next((answer.row.get("items") or () for answer in answers if answer.ok), ())
    return found


def _admission(cluster: ClusterApi, pod: Row) -> Generator[DoctorCheck, None, bool]:
    """A dry run passes every gate of a real creation: namespace, account, classes, quota, pod security, webhooks. Returns whether it passed."""
    answer = cluster.ask("POST", cluster.path("Pod"), query={"dryRun": "All"}, body=pod)
    # 409: the trial's own pod exists, so it was admitted.
    if answer.ok or answer.status == 409:
        yield ok("admission", f"{cluster.namespace} admits a trial's pod (dry run)")
        return True
    yield failed("admission", f"a trial's pod is refused (HTTP {answer.status}): {answer.detail}", _admission_remedy(answer))
    return False


def _admission_remedy(answer: ApiAnswer) -> str:
    if answer.status == 404 and "namespaces" in answer.detail:
        return "create the namespace: kubectl apply -k k8s/provider/overlays/<provider>, or correct launcher.namespace"
    for sign, remedy in (
        ("exceeded quota", "raise the ResourceQuota in your overlay of k8s/provider, or wait for what runs now"),
        ("serviceaccount", "create the account (k8s/provider) or correct launcher.service_account"),
        ("PriorityClass", "add k8s/provider/components/priority-class or correct launcher.priority_class"),
        ("RuntimeClass", "correct launcher.runtime_class: kubectl get runtimeclasses"),
        ("violates PodSecurity", "for host_ipc add k8s/provider/components/host-ipc; all other fields of a trial meet `restricted`"),
    ):
        if sign in answer.detail.replace("service account", "serviceaccount"):
            return remedy
    return "the message names the gate; ask the cluster's administrator"


def _store_from_here(provider: Provider, launcher: KubernetesLauncher) -> DoctorCheck:
    name = "store from here"
    whose = f"Airflow connection {launcher.results_connection}" if launcher.results_connection else "the environment's credentials"
    remedy = f"{whose} must read, write and delete below {launcher.results_url}; check the bucket's name"
    try:
        took = check_access(stores.store_of(provider))
    except StoreFault as error:
        return failed(name, str(error), remedy)
    except (ValueError, ImportError, LookupError, RuntimeError) as error:
        return failed(name, f"{launcher.results_url} cannot be opened: {error}", remedy)
    return ok(name, f"{launcher.results_url}: written, read back and deleted in {took:.2f} s")


def remedy_for(kind: str) -> str:
    """The remedy for a network error, by its class."""
    return {
        "SSLError": "the kubeconfig's certificate-authority-data is of another server, or the certificate lacks the address: "
        "create a new kubeconfig (plumbline cluster kubeconfig PROVIDER)",
        "NameResolutionError": "the name does not resolve here; for a private cluster, check that this network has its DNS zone",
        "ConnectTimeoutError": "a firewall drops the connection: allow this machine's address in the cluster's authorized networks",
        "ReadTimeoutError": "the server accepts connections but does not answer: check the control plane on the provider's status page",
    }.get(kind, "check the address (--server of plumbline cluster kubeconfig), the cluster, and proxies on the way")
