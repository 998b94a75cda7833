"""Check a cluster as a launch would use it: one check at a time, each with its remedy."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from plumbline.declarations import KubernetesLauncher, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.cluster import manifests
from plumbline.launch.cluster.api import ApiAnswer, ClusterApi, NoAnswer
from plumbline.launch.cluster.doctor import access, probe_pod
from plumbline.launch.cluster.doctor.probe_pod import DoctorPatience
from plumbline.launch.cluster.observe import Row, node_inventory
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, unknown
from plumbline.launch.failures import BadDeclaration
from plumbline.results.store import StoreFault, check_access

_TIMEOUT_S = 15.0
MAX_CLOCK_DIFFERENCE_S = 2.0
"""A larger difference makes the cluster's times in a timeline inconsistent with those measured here."""


def examine_cluster(
    provider: Provider, launcher: KubernetesLauncher, trials: Sequence[Trial], *, patience: DoctorPatience | None, gpu: bool = True
) -> Iterator[DoctorCheck]:
    """Check the cluster of the provider's `launcher`, leaving nothing behind.

    `trials`: what must fit, at least one (`typical_trials`). `patience`: with the small pods that are started; None starts none. `gpu`: one
    of them takes a trial's accelerators.
    """
    try:
        cluster = ClusterApi(launcher.connection, launcher.namespace, timeout_s=_TIMEOUT_S)
        cluster.open()
    except BadDeclaration as error:
        yield failed("connection", str(error), f"add the Airflow connection {launcher.connection}: docs/clusters.md")
        yield _store_from_here(provider, launcher)
        return
    try:
        yield from _with_the_api(cluster, provider, launcher, trials, patience, gpu)
    except NoAnswer as error:
        yield failed("reachable", f"{cluster.configuration.host}: {error}", access.remedy_for(error.kind))
    yield _store_from_here(provider, launcher)


def _with_the_api(
    cluster: ClusterApi,
    provider: Provider,
    launcher: KubernetesLauncher,
    trials: Sequence[Trial],
    patience: DoctorPatience | None,
    gpu: bool,
) -> Iterator[DoctorCheck]:
    version = cluster.ask("GET", "/version")
    named = f"Kubernetes {version.row['gitVersion']} at" if "gitVersion" in version.row else "the API at"
    yield ok("reachable", f"{named} {cluster.configuration.host} answers in {version.seconds * 1000:.0f} ms")
    yield _clock(version, datetime.now(timezone.utc))
    review = cluster.ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body=_review("Rules", {"namespace": cluster.namespace})
    )
    if review.status == 401:
        yield access.credentials_rejected(review.status, review.detail)
        return
    yield access.credential_lifetime(
        cluster.configuration, datetime.now(timezone.utc), renewed=access.renews_credentials(launcher.connection)
    )
    yield from _permissions(cluster, launcher, review)
    if launcher.queue is not None:
        yield _queue(cluster, launcher.queue)
    now = datetime.now(timezone.utc)
    pods = {
        trial.workload.kind: [manifests.pod_manifest(trial, rank, requested_at=now) for rank in range(trial.workload.nodes)]
        for trial in trials
    }
    largest = max(
        (each for several in pods.values() for each in several),
        key=lambda pod: sorted(node_inventory.requested_resources(pod).items(), reverse=True),
    )
    most = max(pods.values(), key=len)
    nodes = yield from _room(cluster, launcher, largest, most)
    admitted = yield from _admission(cluster, largest)
    if patience is None:
        return
    if not nodes or not admitted:
        yield unknown("pods", "not started: a trial's pod would get no node")
        return
    seen: set[str] = set()
    held = int(node_inventory.requested_resources(largest).get(launcher.gpu_resource, 0)) if gpu else 0
    for kind, several in pods.items():
        image = launcher.image_for(kind)
        if image is not None and image not in seen:
            gpus = held if not seen else 0
            seen.add(image)
            pod = probe_pod.doctor_pod_manifest(several[0], launcher, time.time(), patience, gpus=gpus)
            yield from probe_pod.run_doctor_pod(cluster, pod, kind, patience, provider, gpus)


def _clock(answer: ApiAnswer, now: datetime) -> DoctorCheck:
    """The server's Date has whole seconds and is half a round trip old."""
    if answer.date is None:
        return unknown("clock", "the API's responses have no date")
    off = (answer.date - now).total_seconds() + 0.5 + answer.seconds / 2
    uncertain = 0.5 + answer.seconds / 2
    if abs(off) - uncertain > MAX_CLOCK_DIFFERENCE_S:
        way = "ahead of" if off > 0 else "behind"
        return failed(
            "clock", f"the cluster is {abs(off):.0f} s {way} this machine", "repair the time service (chrony, NTP) of the wrong one"
        )
    return ok("clock", f"cluster and this machine agree within {abs(off) + uncertain:.1f} s")


def _permissions(cluster: ClusterApi, launcher: KubernetesLauncher, review: ApiAnswer) -> Iterator[DoctorCheck]:
    needed = access.required_permissions(launcher)
    status: Row = review.row.get("status") or {}
    if review.ok and not status.get("incomplete"):
        yield from access.compare_permissions(access.granted_permissions(status.get("resourceRules") or []), needed, cluster.namespace)
        return
    # An authorizer outside the cluster (a webhook) cannot list permissions, but answers for each verb.
    has = frozenset(each for each in needed if _may(cluster, each))
    yield access.compare_permissions(has, needed, cluster.namespace)[0]
    yield unknown("least privilege", "the cluster cannot list all permissions of these credentials")


def _may(cluster: ClusterApi, wanted: access.Permission) -> bool:
    resource, _, sub = wanted.resource.partition("/")
    asked = {"group": wanted.group, "resource": resource, "subresource": sub, "verb": wanted.verb}
    inside = {} if resource == "nodes" else {"namespace": cluster.namespace}
    body = _review("Access", {"resourceAttributes": asked | inside})
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
        return unknown("queue", f"cannot be read: {answer.detail}")
    active = next((c for c in answer.row.get("status", {}).get("conditions") or [] if c["type"] == "Active"), None)
    if active is not None and active["status"] != "True":
        return failed(
            "queue", f"LocalQueue {name} is not active: {active.get('message') or active.get('reason')}", "repair its ClusterQueue"
        )
    return ok("queue", f"LocalQueue {name} admits to {answer.row['spec'].get('clusterQueue')}")


def _room(cluster: ClusterApi, launcher: KubernetesLauncher, largest: Row, most: Sequence[Row]) -> Generator[DoctorCheck, None, bool]:
    """Checks of nodes and quota; returns whether a pod could get a node."""
    nodes = cluster.ask("GET", "/api/v1/nodes")
    running = cluster.ask("GET", cluster.path("Pod"))
    usable = False
    if not nodes.ok or not running.ok:
        yield unknown("nodes", f"cannot be read: {(nodes if not nodes.ok else running).detail}")
    else:
        lines = node_inventory.check_nodes(nodes.row["items"], largest, running.row["items"], launcher.gpu_resource)
        usable = all(line.status == "ok" for line in lines)
        yield from lines
    quotas = cluster.ask("GET", cluster.path("ResourceQuota"))
    if not quotas.ok:
        yield unknown("quota", f"cannot be read: {quotas.detail}")
    else:
        yield node_inventory.check_quota(quotas.row["items"], most)
    return usable


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
        ("service account", "create the account (k8s/provider) or correct launcher.service_account"),
        ("serviceaccount", "create the account (k8s/provider) or correct launcher.service_account"),
        ("PriorityClass", "add k8s/provider/components/priority-class or correct launcher.priority_class"),
        ("RuntimeClass", "correct launcher.runtime_class: kubectl get runtimeclasses"),
        ("violates PodSecurity", "for host_ipc add k8s/provider/components/host-ipc; all other fields of a trial meet `restricted`"),
    ):
        if sign in answer.detail:
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
