"""Launcher for Kubernetes clusters: facts of its nodes, and a hardware probe in one pod like that of a trial, deleted in every case.

Airflow's operator and triggerer watch a trial's pods, so that no single process must live as long as the trial.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from plumbline.declarations import Declarations, KubernetesLauncher, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.doctor.doctor import examine_cluster
from plumbline.launch.cluster.doctor.probe_pod import DOCTOR_PATIENCE
from plumbline.launch.cluster.manifests import gang, network
from plumbline.launch.cluster.manifests.patch import differences, unknown_fields
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe import node_facts
from plumbline.launch.cluster.observe.launch_api import checked
from plumbline.launch.cluster.observe.node_room import NodeRoom, examine_nodes
from plumbline.launch.cluster.observe.observation import (
    Row,
    StopCause,
    decode_observation,
    has_ended,
    has_succeeded,
    name_of,
    parse_time,
    scheduled_at,
)
from plumbline.launch.cluster.observe.uptime import check_cluster
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate import replacement, sweep
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.closing import close_attempt, settle_attempt
from plumbline.launch.cluster.operate.launch_watch import LaunchWatch
from plumbline.launch.cluster.operate.ticket import ClusterTicket, ticket_of
from plumbline.launch.cluster.short_pod import PodPatience, harness_container, run_short_pod, short_pod
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.launch.failures import (
    EXCEPTIONS,
    NODES_FULL,
    ApiRefused,
    BadDeclaration,
    HarnessError,
    InMaintenance,
    InsufficientCapacity,
    LaunchTimeout,
    QuotaExceeded,
)
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, OnProgress, PatchedField, ProbeSkipped, ProviderFacts
from plumbline.launch.leftovers import Leftovers
from plumbline.launch.local.process_launcher import PROBE_START_S, read_probe
from plumbline.launch.plan import PlanError, possible_trials, typical_trials
from plumbline.launch.remote import Poll, RemoteLauncher, Stop
from plumbline.results import FailureClass, LaunchRecord, ResultStore
from plumbline.results.probe_document import ProbeDocument

_PATIENCE = PodPatience(node_s=180.0, start_s=0.0, trouble_s=30.0, gone_s=60.0, poll_s=2.0)
_CLOSED = re.compile(r"were unschedulable")
"""Kubernetes' word for cordoned nodes."""


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
    if busy := _running_trials(api, provider):
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
        failure, detail = classify_launch(replace(seen, providers_nodes=launcher.operated_by == "provider"), None)
        raise EXCEPTIONS[failure or "harness_error"](f"the probe failed: {detail}")
    store = stores.store_of(provider)
    try:
        return read_probe(store.get(path), store.uri(path))
    except FileNotFoundError:
        raise HarnessError(f"the probe on {provider.name} succeeded, but {store.uri(path)} does not exist") from None


def probe_pod_manifest(
    trial: Trial, launcher: KubernetesLauncher, name: str, path: str, now: datetime, limit_s: float, patience: PodPatience, gpus: int = 1
) -> Row:
    """From a trial's pod: the same nodes, image and rights, but other GPUs (one) and little time."""
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
        amounts = {**amounts, launcher.gpu_resource: str(gpus)}
    container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return row


def ask_cluster(
    declared: Declarations, provider: Provider, launcher: KubernetesLauncher, now: datetime, patience: PodPatience = _PATIENCE
) -> float | None:
    """Seconds from the request for a pod with the accelerators of `watch.capacity` to its node; None of a dry run, or where the cluster does not
    say. The pod ends at once.

    TrialFailure of the class of a miss; ApiRefused if the cluster refuses the pod; InMaintenance where its nodes are closed, and not by the provider.
    """
    asked, trials = provider.watch.capacity, typical_trials(declared, provider, now)
    if asked is None or not trials:
        raise BadDeclaration(f"no declared workload fits {provider.name}; expected one, whose pod the check uses")
    api, patience = ClusterApi(launcher.connection, launcher.namespace), replace(patience, start_s=launcher.startup_timeout)
    theirs = launcher.operated_by == "provider"
    # One name for a provider: a check deletes what a killed one left.
    name = f"pl-capacity-{hashlib.sha256(provider.name.encode()).hexdigest()[:8]}"
    pod = probe_pod_manifest(trials[0], launcher, name, "", now, 0.0, patience, asked.gpus or provider.accelerator.count)
    harness_container(pod).update(command=["python", "-c", ""], args=[])
    if asked.dry_run:
        try:
            _check_room(api, provider, launcher, pod, theirs)
        except (InsufficientCapacity, LaunchTimeout) as full:
            if busy := _running_trials(api, provider):
                raise QuotaExceeded(_held_by(busy, str(full))) from full
            raise
        return None
    api.remove(None, f"{names.MANAGED_BY}={names.MANAGER},{names.LAUNCH}={name}", wait_s=patience.gone_s)
    seen = run_short_pod(api, pod, patience, PROBE_START_S).seen
    if seen.stop is None and not seen.gone and all(map(has_succeeded, seen.pods)):
        (row,) = seen.pods
        asked_at, placed_at = parse_time(row["metadata"].get("creationTimestamp")), scheduled_at(row)
        return None if asked_at is None or placed_at is None else max(placed_at - asked_at, 0.0)
    failure, detail = classify_launch(replace(seen, providers_nodes=theirs), None)
    if failure == "launch_timeout" and seen.stop is not None and _CLOSED.search(f"{seen.stop.detail} {detail}"):
        if not theirs:
            raise InMaintenance(f"closed, as we may have done: {seen.stop.detail}")
        failure = "insufficient_capacity"
    crowded = failure == "insufficient_capacity" or NODES_FULL in (detail or "")
    if crowded and (busy := _running_trials(api, provider)):
        failure, detail = "quota_exceeded", _held_by(busy, detail or "")
    raise EXCEPTIONS[failure or "harness_error"](detail or "the pod of the check failed")


def _held_by(busy: Sequence[str], detail: str) -> str:
    return f"our own trials hold the nodes ({', '.join(busy[:3])}): {detail}"


def _check_room(api: ClusterApi, provider: Provider, launcher: KubernetesLauncher, pod: Row, theirs: bool = False) -> None:
    """Raise what keeps the pod from a node now, as far as the API alone shows it. `theirs`: the provider alone fills and closes the nodes."""
    answer = api.ask("POST", api.path("Pod"), query={"dryRun": "All"}, body=pod)
    if not answer.ok:
        raise ApiRefused(answer.status, answer.detail)
    room = examine_nodes(api.nodes(), pod, api.listed("Pod", ""), launcher.gpu_resource, provider.accelerator.product)
    last = room.checks[-1]
    if last.check == "nodes ready" and not theirs and all(node.maintained for node in room.selected):
        if any(node.change_failed for node in room.selected):
            raise EXCEPTIONS["bad_declaration"](f"{last.found}; the GPU operator of this cluster failed: see its own log")
        raise InMaintenance(last.found)
    if (failure := _class_of_room(room, theirs)) is not None:
        raise EXCEPTIONS[failure](last.found)


def _class_of_room(room: NodeRoom, theirs: bool) -> FailureClass | None:
    """None if a node can hold the pod now. `theirs`: the provider alone fills and closes the nodes."""
    last = room.checks[-1]
    if last.status == "ok":
        return None if room.free else "insufficient_capacity" if theirs else "launch_timeout"
    if last.status == "failed" and last.check == "nodes ready":
        # With a node that is closed by us, there may have been room.
        sick = any(node.sick for node in room.selected) and not any(node.maintained for node in room.selected)
        return "provider_fault" if sick else "insufficient_capacity" if theirs else "launch_timeout"
    if last.status == "failed":
        return "provider_fault" if room.lost else "bad_declaration"
    return "launch_timeout"


def _running_trials(api: ClusterApi, provider: Provider) -> list[str]:
    pods = api.pods(f"{names.MANAGED_BY}={names.MANAGER},{names.PROVIDER}={provider.name}")
    return [name_of(pod) for pod in pods if not has_ended(pod)]


class ClusterLauncher(RemoteLauncher[Attempt]):
    """A trial is a pod, or a gang of pods with one owner."""

    operator = "plumbline.airflow.operators:operator_for"
    place = "the cluster"

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        provider = trial.provider
        raise PlanError(
            f'Airflow launches the trials of "{provider.name}" ({provider.launcher.kind}): run '
            f"`plumbline run --provider {provider.name}`, or trigger the DAG {provider.dag_id}"
        )

    def announce(self, spec: Mapping[str, str]) -> Attempt:
        return Attempt.next(spec)

    def attempt_at(self, home: ResultStore, folder: str) -> Attempt:
        return Attempt.at(home, folder)

    def submit(self, attempt: Attempt, pod: Row | None = None) -> None:
        """See RemoteLauncher.submit. `pod`: the manifest of a single pod, as Airflow completed it; the trial's own without one."""
        api = attempt.api()
        guard = attempt.create_guard(api)
        attempt.create_key_secret(api, guard)
        policies = network.network_policies(attempt.trial, attempt.requested_at)
        if attempt.trial.workload.nodes > 1:
            wanted = gang.gang_manifests(attempt.trial, requested_at=attempt.requested_at)
            owner = api.create(wanted.owner)
            for each in gang.with_owner((*policies, *wanted.pods), owner):
                api.create(each)
            return
        single = self.pod(attempt) if pod is None else pod
        if guard is None:
            api.create(single)
        else:
            for each in gang.with_owner((*policies, *attempt.servers, single), guard):
                api.create(each)
        replacement.confirm_replacement(attempt)

    def pod(self, attempt: Attempt) -> Row:
        """The manifest of a single pod."""
        return pod_manifest(attempt.trial, requested_at=attempt.requested_at, deletions=attempt.replaced.deletions)

    def begin_replacement(self, attempt: Attempt, seen: Mapping[str, Any]) -> bool:
        """Store that the trial asked for its pod's replacement. False if the pod has ended or vanished, which ends the attempt."""
        return replacement.begin_replacement(attempt, decode_observation(dict(seen)))

    def delete_replaced(self, attempt: Attempt) -> None:
        """Delete the pod that is replaced without grace, and wait until it is gone. ApiRefused; Unreachable, also if it remains."""
        replacement.delete_replaced_pod(attempt, attempt.api())

    def ticket(self, attempt: Attempt) -> Mapping[str, Any]:
        return ticket_of(attempt).row

    def poll(self, ticket: Mapping[str, Any], log: Any) -> AsyncGenerator[Poll, None]:
        return LaunchWatch(ClusterTicket(**ticket), log).polls()

    def collect(self, attempt: Attempt, seen: Mapping[str, Any] | None = None, stop: Stop | None = None) -> LaunchRecord:
        observed = None if seen is None else decode_observation(dict(seen))
        return close_attempt(attempt, observed, None if stop is None else StopCause.of(stop))

    def cancel(self, ticket: Mapping[str, Any], *, patience_s: float, timeout_s: float) -> None:
        of = ClusterTicket(**ticket)
        api = ClusterApi(of.connection, of.namespace, patience_s=patience_s, timeout_s=min(of.request_timeout_s, timeout_s))
        checked(of.connection, lambda: api.request_deletion(of.owner_row, of.selector, of.secret))

    def wait_s(self, attempt: Attempt) -> float:
        of = ticket_of(attempt)
        # From now, not from the request: a clock change must not end a healthy launch.
        return of.deadline - of.requested_at + of.unreachable_timeout_s

    def settle_attempt(self, attempt: Attempt) -> LaunchRecord | None:
        return settle_attempt(attempt)

    def sweep(self, provider: Provider, campaign_id: str | None = None) -> list[str]:
        launches = None if campaign_id is None else sweep.campaign_launches(campaign_id, provider.name)
        return sweep.sweep_expired(cluster_declaration(provider), launches=launches)

    def leftovers(self, provider: Provider) -> Leftovers:
        return sweep.count_pods(cluster_declaration(provider))

    def doctor(
        self, declared: Declarations, provider: Provider, now: datetime, *, start: bool = True, accelerators: bool = True
    ) -> Iterator[DoctorCheck]:
        trials, patience = possible_trials(declared, provider, now), DOCTOR_PATIENCE if start else None
        return examine_cluster(provider, cluster_declaration(provider), trials, patience=patience, gpu=accelerators)

    def patched_fields(self, declared: Declarations, provider: Provider, now: datetime) -> list[PatchedField]:
        launcher, trial = cluster_declaration(provider), next(iter(typical_trials(declared, provider, now)), None)
        if trial is None or not launcher.patched:
            return []
        plain = provider.model_copy(update={"launcher": launcher.model_copy(update={"pod_patch": {}})})
        before = pod_manifest(trial.model_copy(update={"provider": plain}), requested_at=now)
        after = pod_manifest(trial, requested_at=now)
        changed = [PatchedField(provider.name, *fields, known=True) for fields in differences(before, after)]
        return changed + [PatchedField(provider.name, field, None, None, known=False) for field in unknown_fields(after)]

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        return node_facts.discover_nodes(provider, cluster_declaration(provider), patience_s=patience_s)

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return probe_cluster(declared, provider, cluster_declaration(provider), now, limit_s)

    def check_uptime(self, declared: Declarations, provider: Provider, now: datetime) -> float:
        return check_cluster(provider, cluster_declaration(provider))

    def ask_capacity(self, declared: Declarations, provider: Provider, now: datetime) -> float | None:
        return ask_cluster(declared, provider, cluster_declaration(provider), now)
