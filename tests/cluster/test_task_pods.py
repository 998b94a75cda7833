"""KubernetesExecutor on a real cluster: task pods made from the Helm values carry a campaign through, and through what ends them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cluster.admin import Cluster

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

import fleet_kills
from fleet_campaign import Size, account, start, world
from fleet_kubernetes import IMAGE, KubernetesExecutor
from fleet_services import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.fixture
def executor(kubeconfig: Path) -> KubernetesExecutor:
    """Needs a cluster whose only node is this machine: pods mount its folders and use its loopback."""
    name = ":".join(IMAGE)
    if name not in Cluster(kubeconfig).images():
        pytest.skip(f"the cluster has no image {name}")
    return KubernetesExecutor(4)


@pytest.mark.fault(
    "a task pod is deleted and a scheduler killed in the middle of a campaign",
    ends="executed again",
    keeps="every trial, once; no pod stays",
)
def test_a_campaign_survives_a_deleted_pod_and_a_killed_scheduler(executor: KubernetesExecutor) -> None:
    with world(executor, Size(2, 2, 1, lasts_s=10, parallel=2), fleet_kills.SOONER) as here, here.server.client() as client:
        campaign = start(here, client, "pods")

        def runs(stage: str) -> None:
            fleet_kills.until(lambda: fleet_kills.states(here, campaign, stage, "state = 'running'"), here, campaign, client)

        runs("run")
        executor.delete_one()
        here.server.kill("scheduler-1")
        here.server.restart("scheduler-1")
        runs("record")
        executor.delete_one()
        fleet_kills.until(lambda: campaign.ended(client), here, campaign, client)
        wait_for("no task pod of the campaign is left", lambda: not benchmark_pods(executor), 120)
        found = account(here, campaign)
        assert found.clean, str(found)
        assert fleet_kills.orphans(here) == []
    assert here.server.left == []


def benchmark_pods(executor: KubernetesExecutor) -> list[str]:
    """Task pods but for those of `upkeep`, which go on."""
    return [pod.metadata.name for pod in executor.pods() if pod.metadata.annotations["dag_id"].startswith("benchmark_")]
