"""What happens to a trial in its middle: somebody takes its pod, its node, its watcher or its store away, or decides against it."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable

import pytest
from tests.cluster.declared import LONG, ONE
from tests.cluster.test_failures import recorded
from tests.cluster.world import World

from plumbline.embedded.client import DagRun
from plumbline.results import ResultDocument

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

RUN = "training.trial.run"
TAINT = {"key": "e2e/gone", "effect": "NoExecute", "value": "now"}


def disturbed(e2e: World, campaign: str, act: Callable[[str, str], None], workload: str = LONG) -> tuple[DagRun, list[ResultDocument]]:
    """A run of a long workload to its end; `act` gets namespace and pod's name in the middle of the trial."""
    namespace, campaign = e2e.namespace(ONE), f"{campaign}-{secrets.token_hex(2)}"  # a second try of a test has a campaign of its own
    run = e2e.start(ONE, [workload], campaign)
    (pod,) = e2e.cluster.measuring(namespace, workload)
    e2e.wait_for_state(run, RUN, "deferred")
    act(namespace, pod["metadata"]["name"])
    ended = e2e.ended(run)
    assert e2e.cluster.leftovers(namespace) == []
    return ended, recorded(ONE, campaign)


def assert_interrupted_and_measured_again(e2e: World, run: DagRun, attempts: list[ResultDocument]) -> None:
    assert [a.validity.failure_class for a in attempts] == ["interrupted", None], e2e.explain(run)
    assert attempts[0].launch is not None
    assert attempts[0].launch.pods[0].events, "what was seen of the pod before it was gone is kept"
    assert run.state == "success"


def assert_measured_at_once(e2e: World, run: DagRun, attempts: list[ResultDocument]) -> None:
    assert [a.validity.failure_class for a in attempts] == [None], e2e.explain(run)
    assert run.state == "success"


@pytest.mark.fault("a person deletes the pod of a trial", ends="interrupted, measured again", keeps="both attempts")
def test_deleted(e2e: World) -> None:
    def delete(namespace: str, pod: str) -> None:
        e2e.cluster.core.delete_namespaced_pod(pod, namespace)

    assert_interrupted_and_measured_again(e2e, *disturbed(e2e, "e2e-deleted", delete))


@pytest.mark.full
@pytest.mark.fault("the pod is deleted without grace", ends="interrupted, measured again", keeps="both attempts")
def test_deleted_without_grace(e2e: World) -> None:
    def delete(namespace: str, pod: str) -> None:
        e2e.cluster.core.delete_namespaced_pod(pod, namespace, grace_period_seconds=0)

    assert_interrupted_and_measured_again(e2e, *disturbed(e2e, "e2e-vanished", delete))


@pytest.mark.full
@pytest.mark.fault("the pod is evicted", ends="interrupted, measured again", keeps="both attempts")
def test_evicted(e2e: World) -> None:
    def evict(namespace: str, pod: str) -> None:
        e2e.cluster.core.create_namespaced_pod_eviction(pod, namespace, {"metadata": {"name": pod}})

    assert_interrupted_and_measured_again(e2e, *disturbed(e2e, "e2e-evicted", evict))


@pytest.mark.full
@pytest.mark.fault("a taint evicts the pod from its node", ends="interrupted, measured again", keeps="both attempts")
def test_a_taint_drives_it_off_its_node(e2e: World) -> None:
    def taint(namespace: str, pod: str) -> None:
        node = e2e.cluster.core.read_namespaced_pod(pod, namespace).spec.node_name
        before = e2e.cluster.rows(e2e.cluster.core.read_node(node))["spec"].get("taints")
        e2e.cluster.core.patch_node(node, {"spec": {"taints": [*(before or ()), TAINT]}})
        try:
            e2e.cluster.eventually(
                lambda: all(p["metadata"].get("deletionTimestamp") for p in e2e.cluster.pods(namespace) if p["metadata"]["name"] == pod)
            )
        finally:
            e2e.cluster.core.patch_node(node, {"spec": {"taints": before}})

    run, attempts = disturbed(e2e, "e2e-taint", taint)
    assert_interrupted_and_measured_again(e2e, run, attempts)
    assert attempts[0].launch is not None
    assert "aint" in (attempts[0].launch.failure_detail or ""), attempts[0].launch.failure_detail


@pytest.mark.full
@pytest.mark.fault("the triggerer is killed while a pod measures", ends="measured, one attempt", keeps="the pod and its result")
def test_triggerer_killed(e2e: World) -> None:
    def kill(namespace: str, pod: str) -> None:
        e2e.airflow.kill("triggerer")
        time.sleep(5)
        e2e.airflow.start(["triggerer"])

    assert_measured_at_once(e2e, *disturbed(e2e, "e2e-triggerer", kill))


@pytest.mark.full
@pytest.mark.fault("the scheduler is killed while a pod measures", ends="measured, one attempt", keeps="the pod and its result")
def test_scheduler_killed(e2e: World) -> None:
    def kill(namespace: str, pod: str) -> None:
        e2e.airflow.kill("scheduler")
        time.sleep(5)
        e2e.airflow.start(["scheduler"])

    assert_measured_at_once(e2e, *disturbed(e2e, "e2e-scheduler", kill))


@pytest.mark.full
@pytest.mark.fault("the result store is away when the pod stores", ends="measured, one attempt", keeps="the result")
def test_result_store_away_for_a_minute(e2e: World) -> None:
    """At the time at which the pod wants to store its result."""

    def away(namespace: str, pod: str) -> None:
        e2e.cluster.eventually(lambda: '"fraction": 0.9' in e2e.cluster.log(namespace, pod), 300)
        e2e.store.down()
        try:
            time.sleep(60)
        finally:
            e2e.store.up()

    assert_measured_at_once(e2e, *disturbed(e2e, "e2e-store", away))


@pytest.mark.full
@pytest.mark.fault("the cluster's API server restarts", ends="measured, one attempt", keeps="the pod and its result")
def test_api_server_restarted(e2e: World) -> None:
    command = os.environ.get("E2E_API_RESTART")
    if not command:
        pytest.skip("E2E_API_RESTART does not say how this cluster's API server is restarted")

    def restart(namespace: str, pod: str) -> None:
        subprocess.run(command, shell=True, check=True, timeout=300)
        e2e.cluster.eventually(lambda: e2e.cluster.nodes(), 120)

    assert_measured_at_once(e2e, *disturbed(e2e, "e2e-api", restart))


@pytest.mark.full
@pytest.mark.fault("a person marks the running task failed", ends="interrupted", keeps="the attempt; no pod is left")
def test_marked_failed_by_a_person(e2e: World) -> None:
    """The pod goes at once, the attempt is recorded, and nobody tries again against the person's will."""

    def mark(namespace: str, pod: str) -> None:
        (run,) = e2e.client.active_runs("benchmark_e2e_one")
        e2e.set_task_state(run, RUN, "failed")
        e2e.cluster.eventually(lambda: e2e.cluster.leftovers(namespace) == [], 120)

    _, attempts = disturbed(e2e, "e2e-marked", mark)
    assert [a.validity.failure_class for a in attempts] == ["interrupted"]


@pytest.mark.full
@pytest.mark.fault("a task is marked by hand before its worker is back", ends="interrupted", keeps="the attempt; no pod is left")
def test_marked_failed_while_neither_a_worker_nor_the_triggerer_has_it(e2e: World) -> None:
    """The triggerer is away: no process deletes the pod then, so `collect` does."""
    campaign = "e2e-orphan"
    namespace, run = e2e.namespace(ONE), e2e.start(ONE, [LONG], campaign)
    e2e.cluster.eventually(lambda: e2e.cluster.pods(namespace), 180)
    e2e.wait_for_state(run, RUN, "deferred")
    e2e.cluster.measuring(namespace, LONG)
    e2e.airflow.kill("triggerer")
    try:
        e2e.set_task_state(run, RUN, "failed")
        assert e2e.cluster.pods(namespace), "nothing of Airflow deletes it"
    finally:
        e2e.airflow.start(["triggerer"])
    e2e.ended(run)
    assert e2e.cluster.leftovers(namespace) == []
    attempts = recorded(ONE, campaign)
    assert [a.validity.failure_class for a in attempts] == ["interrupted"]
    assert attempts[0].launch is not None and attempts[0].launch.pods[0].events


@pytest.mark.full
@pytest.mark.fault("a person clears the running task", ends="interrupted, measured again", keeps="both attempts")
def test_cleared_by_a_person(e2e: World) -> None:
    """A cleared trial starts anew, as an attempt of its own, and the pod of the first is gone."""

    def clear(namespace: str, pod: str) -> None:
        (run,) = e2e.client.active_runs("benchmark_e2e_one")
        e2e.clear(run, RUN)
        e2e.cluster.eventually(lambda: pod not in [p["metadata"]["name"] for p in e2e.cluster.pods(namespace)], 180)

    run, attempts = disturbed(e2e, "e2e-cleared", clear)
    assert_interrupted_and_measured_again(e2e, run, attempts)
