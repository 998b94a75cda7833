"""Servers of a trial's Deployment that cannot serve end the trial as its own pod would; nothing is left of them, not even where Airflow is gone."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.cluster.declared import ONE, ORPHANED, SERVED, SERVER_CRASHES, SERVER_NINE_GPUS
from tests.cluster.test_failures import recorded
from tests.cluster.world import World, store_connection

from plumbline.declarations import load
from plumbline.launch import stores
from plumbline.launch.cluster import launcher_account
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.manifests.trial_pod import longest_launch_s
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.plan import possible_trials

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("provider", "expected", "said"),
    [(SERVER_NINE_GPUS, "launch_timeout", "nvidia.com/gpu"), (SERVER_CRASHES, "server_error", "no such option: --prot")],
)
@pytest.mark.fault("the servers of a Deployment get no node", ends="launch_timeout", keeps="the reason of the scheduler")
@pytest.mark.fault("the servers of a Deployment crash", ends="server_error", keeps="exit code and last words")
def test_servers_that_cannot_serve_end_the_trial(e2e: World, provider: str, expected: str, said: str) -> None:
    run = e2e.ended(e2e.start(provider, [SERVED], provider), 600)
    assert run.state == "success", e2e.explain(run)
    attempts = recorded(provider, provider)
    assert attempts
    for document in attempts:
        assert document.validity.failure_class == expected, e2e.explain(run)
        assert document.launch is not None and said in (document.launch.failure_detail or ""), document.launch
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []


@pytest.mark.fault("Airflow is gone while a Deployment serves", ends="nothing is left after its deadline", keeps="what its pods stored")
def test_a_deployment_without_airflow_goes_at_its_deadline(e2e: World, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = load()
    provider, namespace, cluster = declared.providers[ORPHANED], e2e.namespace(ORPHANED), e2e.cluster
    granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), namespace, lifetime_s=3600.0)
    monkeypatch.setenv("AIRFLOW_CONN_K8S_E2E_ORPHANED", json.dumps(granted.as_connection()))
    monkeypatch.setenv("AIRFLOW_CONN_E2E_STORE", store_connection(e2e.store))
    trial = next(each for each in possible_trials(declared, provider, datetime.now(timezone.utc)) if each.workload.name == SERVED)
    stores.home().put(stores.planned_path(trial.campaign_id, trial.trial_id), trial.model_dump_json().encode())
    launcher = ClusterLauncher()
    attempt = launcher.announce({"campaign_id": trial.campaign_id, "trial_id": trial.trial_id, "title": "orphaned"})
    began = time.monotonic()
    launcher.submit(attempt)  # and whoever submitted it does nothing more

    def kinds() -> set[str]:
        return {each.partition("/")[0] for each in cluster.leftovers(namespace)}

    cluster.eventually(lambda: [each for each in cluster.pods(namespace) if "plumbline/serves" in each["metadata"]["labels"]])
    assert {"deployments", "services", "jobs", "pods", "Secret", "NetworkPolicy"} <= kinds()
    deadline_s = longest_launch_s(cluster_declaration(provider))
    cluster.eventually(lambda: not kinds(), deadline_s + 120.0)
    assert time.monotonic() - began > deadline_s - 1.0, "not before"
