"""Launcher for Kubernetes clusters: facts of its nodes, and a hardware probe in one pod like that of a trial, deleted in every case.

Airflow's operator and triggerer watch a trial's pods, so that no single process must live as long as the trial.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import node_facts
from plumbline.launch.cluster.observe.observation import Row, has_ended, has_succeeded, name_of
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.short_pod import PodPatience, harness_container, run_short_pod, short_pod
from plumbline.launch.failures import EXCEPTIONS, BadDeclaration, HarnessError
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, Launcher, OnProgress, ProbeSkipped, ProviderFacts
from plumbline.launch.local.process_launcher import PROBE_START_S, read_probe
from plumbline.launch.plan import PlanError, typical_trials
from plumbline.results import LaunchRecord, ResultStore
from plumbline.results.probe_document import ProbeDocument

_PATIENCE = PodPatience(node_s=180.0, start_s=0.0, trouble_s=30.0, gone_s=60.0, poll_s=2.0)


def probe_cluster(
    declared: Declarations,
    provider: Provider,
    launcher: KubernetesLauncher,
    now: datetime,
    limit_s: float,
    patience: PodPatience = _PATIENCE,
) -> ProbeDocument | ProbeSkipped:
    """Probe one node of the provider; ProbeSkipped if none has room, or if trials run on its nodes.

    TrialFailure as of a launch; ApiRefused if the cluster refuses the pod; OSError if the store does not answer.
    """
    patience = replace(patience, start_s=launcher.startup_timeout)
    api = ClusterApi(launcher.connection, launcher.namespace)
    busy = [name_of(pod) for pod in api.pods(f"{names.MANAGED_BY}={names.MANAGER},{names.PROVIDER}={provider.name}") if not has_ended(pod)]
    if busy:
        return ProbeSkipped(f"skipped while trials run on {provider.name}: {', '.join(busy[:3])}{' and others' if len(busy) > 3 else ''}")
    trials = typical_trials(declared, provider, now)
    if not trials:
        raise BadDeclaration(f"no declared workload fits {provider.name}; expected one, whose pod the probe uses")
    name = f"pl-probe-{secrets.token_hex(4)}"
    path = f"probes/{provider.name}/{name}.json"
    pod = probe_pod_manifest(trials[0], launcher, name, path, now, limit_s, patience)
    seen = run_short_pod(api, pod, patience, limit_s + PROBE_START_S).seen
    if seen.stop is not None and seen.stop.reason == "schedule_timeout":
        return ProbeSkipped(f"{provider.name} was not probed: no node had room for it within {patience.node_s:g} s: {seen.stop.detail}")
    if seen.stop is not None or seen.gone or not all(map(has_succeeded, seen.pods)):
        failure, detail = classify_launch(seen, None)
        raise EXCEPTIONS[failure or "harness_error"](f"the probe failed: {detail}")
    store = stores.store_of(provider)
    try:
        return read_probe(store.get(path), store.uri(path))
    except FileNotFoundError:
        raise HarnessError(f"the probe on {provider.name} succeeded, but {store.uri(path)} does not exist") from None


def probe_pod_manifest(
    trial: Trial, launcher: KubernetesLauncher, name: str, path: str, now: datetime, limit_s: float, patience: PodPatience
) -> Row:
    """From a trial's pod: the same nodes, image and rights, but one GPU and little time."""
    whole_s = launcher.startup_timeout + limit_s + PROBE_START_S
    row = short_pod(
        pod_manifest(trial, requested_at=now),
        name,
        command="probe",
        arguments=["--out", f"{launcher.results_url.rstrip('/')}/{path}", "--limit", f"{limit_s:g}"],
        whole_s=whole_s,
        expires=now.timestamp() + patience.node_s + whole_s + 600,
    )
    row["spec"].pop("initContainers", None)  # daemons for the network of whole nodes
    container = harness_container(row)
    amounts = container["resources"]["limits"]
    if launcher.gpu_resource in amounts:
        amounts = {**amounts, launcher.gpu_resource: "1"}
    container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return row


class ClusterLauncher(Launcher):
    operator = "plumbline.airflow.operators:operator_for"

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        provider = trial.provider
        raise PlanError(
            f'Airflow launches the trials of "{provider.name}" ({provider.launcher.kind}): run '
            f"`plumbline run --provider {provider.name}`, or trigger the DAG {provider.dag_id}"
        )

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return node_facts.discover_nodes(provider, cluster_declaration(provider), patience_s=patience_s)

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return probe_cluster(declared, provider, cluster_declaration(provider), now, limit_s)
