"""Launcher for Kubernetes clusters: facts of its nodes, and a hardware probe in one pod like that of a trial, deleted in every case.

Airflow's operator and triggerer watch a trial's pods, so that no single process must live as long as the trial.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.cluster import manifests, names, observe
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import Row, node_inventory
from plumbline.launch.cluster.observe.polling import tolerate
from plumbline.launch.cluster.observe.verdict import pod_verdict
from plumbline.launch.failures import EXCEPTIONS, BadDeclaration, HarnessError, Interrupted, LaunchTimeout, TrialTimeout
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, Launcher, OnProgress, ProbeSkipped, ProviderFacts
from plumbline.launch.local.process_launcher import PROBE_START_S, read_probe
from plumbline.launch.plan import PlanError, typical_trials
from plumbline.results import LaunchRecord, ResultStore
from plumbline.results.document import ProbeDocument

_POD_LABELS = (names.MANAGED_BY, names.PROVIDER, manifests.QUEUE)


@dataclass(frozen=True)
class PodPatience:
    """Seconds until the probe is skipped without a node, until a start failure counts, for the pod's deletion; and between polls."""

    node_s: float = 180.0
    trouble_s: float = 30.0
    gone_s: float = 60.0
    look_s: float = 2.0


def probe_cluster(
    declared: Declarations,
    provider: Provider,
    launcher: KubernetesLauncher,
    now: datetime,
    limit_s: float,
    patience: PodPatience | None = None,
) -> ProbeDocument | ProbeSkipped:
    """Probe one node of the provider; ProbeSkipped if none has room, or if trials run on its nodes.

    TrialFailure as of a launch; ApiRefused if the cluster refuses the pod; OSError if the store does not answer.
    """
    patience = patience or PodPatience()
    api = ClusterApi(launcher.connection, launcher.namespace)
    busy = [observe.name_of(pod) for pod in api.pods(_selector(names.PROVIDER, provider.name)) if not observe.has_ended(pod)]
    if busy:
        return ProbeSkipped(f"skipped while trials run on {provider.name}: {', '.join(busy[:3])}{' and others' if len(busy) > 3 else ''}")
    trials = typical_trials(declared, provider, now)
    if not trials:
        raise BadDeclaration(f"no declared workload fits {provider.name}; expected one, whose pod the probe uses")
    name = f"pl-probe-{secrets.token_hex(4)}"
    path = f"probes/{provider.name}/{name}.json"
    pod = probe_pod_manifest(trials[0], launcher, name, path, now, limit_s, patience)
    api.create(pod)
    try:
        if (why := _wait(api, name, launcher, limit_s, patience)) is not None:
            return ProbeSkipped(f"{provider.name} was not probed: {why}")
    finally:
        tolerate(f"delete the pod {name}", partial(api.remove, None, _selector(names.LAUNCH, name), wait_s=patience.gone_s), list[str]())
    store = stores.store_of(provider)
    try:
        return read_probe(store.get(path), store.uri(path))
    except FileNotFoundError:
        raise HarnessError(f"the probe on {provider.name} succeeded, but {store.uri(path)} does not exist") from None


def probe_pod_manifest(
    trial: Trial, launcher: KubernetesLauncher, name: str, path: str, now: datetime, limit_s: float, patience: PodPatience
) -> Row:
    """From a trial's pod: the same nodes, image and rights, but one GPU and little time."""
    row = manifests.pod_manifest(trial, requested_at=now)
    labels = {key: value for key, value in row["metadata"]["labels"].items() if key in _POD_LABELS} | {names.LAUNCH: name}
    whole_s = int(launcher.startup_timeout + limit_s + PROBE_START_S)
    expires = str(int(now.timestamp() + patience.node_s + whole_s + 600))
    row["metadata"] |= {"name": name, "labels": labels, "annotations": {**_template_annotations(row), names.EXPIRES: expires}}
    spec = row["spec"]
    for key in ("hostname", "subdomain", "affinity", "setHostnameAsFQDN"):
        spec.pop(key, None)
    spec["activeDeadlineSeconds"] = whole_s
    spec.pop("initContainers", None)  # daemons for the network of whole nodes
    container = next(c for c in spec["containers"] if c["name"] == observe.CONTAINER)
    container["command"] = ["probe" if word == "run" else word for word in container["command"]]
    container["args"] = ["--out", f"{launcher.results_url.rstrip('/')}/{path}", "--limit", f"{limit_s:g}"]
    amounts = container["resources"]["limits"]
    if launcher.gpu_resource in amounts:
        amounts = {**amounts, launcher.gpu_resource: "1"}
    container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return row


def _template_annotations(pod: Row) -> dict[str, str]:
    """The template's annotations, without those that name the trial."""
    return {key: value for key, value in pod["metadata"]["annotations"].items() if key not in (names.TRIAL, names.EXPIRES)}


def _selector(label: str, value: str) -> str:
    return f"{names.MANAGED_BY}={names.MANAGER},{label}={value}"


def _wait(api: ClusterApi, name: str, launcher: KubernetesLauncher, limit_s: float, patience: PodPatience) -> str | None:
    """None after success; why the probe is skipped, if it got no node. TrialFailure of any other end."""
    asked_at, begun, troubled = time.monotonic(), None, None
    while True:
        pod = api.get("Pod", name)
        now = time.monotonic()
        if pod is None:
            raise Interrupted(f"the probe's pod {name} was deleted by someone else")
        if observe.has_ended(pod):
            failed = pod_verdict(pod, api.events([name]), gone=False)
            if failed is None:
                return None
            raise EXCEPTIONS[failed.failure_class](f"the probe failed: {failed.detail}")
        if not observe.is_scheduled(pod):
            if now - asked_at > patience.node_s:
                return f"no node had room for it within {patience.node_s:g} s ({observe.unscheduled_reason(pod) or 'the scheduler reports no reason'})"
        elif observe.start_failure(pod) is not None:
            troubled = troubled or now
            if now - troubled > patience.trouble_s and (wrong := pod_verdict(pod, api.events([name]), gone=False)) is not None:
                raise EXCEPTIONS[wrong.failure_class](f"the probe did not start: {wrong.detail}")
        elif observe.is_running(pod):
            begun = begun or now
            if now - begun > limit_s + PROBE_START_S:
                raise TrialTimeout(f"the probe's pod {name} did not end within {limit_s + PROBE_START_S:g} s")
        elif now - asked_at > patience.node_s + launcher.startup_timeout:
            raise LaunchTimeout(f"the probe's pod {name} did not start within {launcher.startup_timeout:g} s (launcher.startup_timeout)")
        time.sleep(patience.look_s)


class ClusterLauncher(Launcher):
    operator = "plumbline.airflow.operators:operator_for"

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        provider = trial.provider
        raise PlanError(
            f'Airflow launches the trials of "{provider.name}" ({provider.launcher.kind}): run '
            f"`plumbline run --provider {provider.name}`, or trigger the DAG {provider.dag_id}"
        )

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return node_inventory.discover_nodes(provider, cluster_declaration(provider), patience_s=patience_s)

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return probe_cluster(declared, provider, cluster_declaration(provider), now, limit_s)
