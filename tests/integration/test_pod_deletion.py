"""The fault pod_delete by its launcher: who deletes and creates pods, whoever dies in between. The API is a fake that listens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.pod_harness import asking
from tests.integration.test_cluster_operators import NS, World, airflow_home, kube, make  # noqa: F401 - fixtures

from plumbline.harness.launcher_protocol import DELETIONS_VARIABLE, VOLUME_VARIABLE
from plumbline.launch.cluster import names
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.observe.observation import LaunchObservation
from plumbline.launch.cluster.operate import replacement
from plumbline.launch.cluster.operate.attempts import Attempt

ONCE = {"inject": "pod_delete", "at_step": 50}


@pytest.fixture
def world(make: Any, kube: FakeKubernetes) -> World:  # noqa: F811
    kube.script("*", Script().started().runs(asking(1)))
    return make(declare={"fault": ONCE}, volume_claim="checkpoints")  # type: ignore[no-any-return]


def created(kube: FakeKubernetes) -> list[dict[str, Any]]:  # noqa: F811
    calls = kube.called(f"POST /api/v1/namespaces/{NS}/pods")
    return [call.body for call in calls if call.code == 201 and call.body is not None]


def forced(kube: FakeKubernetes) -> list[str]:  # noqa: F811
    """Names of the pods that were deleted without grace."""
    calls = kube.called(f"DELETE /api/v1/namespaces/{NS}/pods/*")
    return [call.path.rpartition("/")[2] for call in calls if (call.body or {}).get("gracePeriodSeconds") == 0]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"] if "value" in entry}


def check_replaced(world: World, kube: FakeKubernetes, times: int, *, late: bool = False) -> None:  # noqa: F811
    """Each pod was deleted once, the next was told of it, and all of them are one attempt that was measured."""
    (record,) = world.attempts
    assert (record.failure_class, record.exit_code) == (None, 0), record
    name = record.pods[0].name
    expected = [name, *(f"{name}-{number}" for number in range(1, times + 1))]
    assert [pod.name for pod in record.pods] == [pod["metadata"]["name"] for pod in created(kube)] == expected
    assert forced(kube) == expected[:-1]
    told = [json.loads(variables(pod).get(DELETIONS_VARIABLE, "[]")) for pod in created(kube)]
    assert [len(deletions) for deletions in told] == list(range(times + 1))
    assert all(0 <= deletion["gone_s"] - deletion["asked_s"] < 60 for deletion in told[-1])
    assert told[-1][-1]["late"] == late
    events = [event.name for event in record.events]
    assert events.count("pod_deletion_asked") == events.count("pod_seen_gone") == events.count("pod_replaced") == times
    assert events.count("scheduled") == events.count("finished") == 1 and events[-1] == "deleted"
    assert [[event.name for event in pod.events].count("deleted") for pod in record.pods[:-1]] == [1] * times
    assert kube.leftovers() == []


def test_a_pod_that_asks_for_it_is_deleted_and_another_takes_its_place(world: World, kube: FakeKubernetes) -> None:  # noqa: F811
    assert world.run() == "success"
    check_replaced(world, kube, 1)
    for pod in created(kube):
        assert {"name": "kept", "persistentVolumeClaim": {"claimName": "checkpoints"}} in pod["spec"]["volumes"]
        assert {"name": "kept", "mountPath": variables(pod)[VOLUME_VARIABLE]} in pod["spec"]["containers"][0]["volumeMounts"]
    kept = world.home.get(f"{world.home.folder(world.trial)}/launch.0.log")
    assert b"plumbline-delete-pod" in kept, "what the deleted pod said is kept"


@pytest.mark.full
def test_twice_is_twice(make: Any, kube: FakeKubernetes) -> None:  # noqa: F811
    kube.script("*", Script().started().runs(asking(9)))
    kube.script("*-0-2", Script().started().runs(asking(2)))
    world = make(declare={"fault": {**ONCE, "times": 2}}, volume_claim="checkpoints")
    assert world.run() == "success"
    check_replaced(world, kube, 2)


@pytest.mark.full
def test_a_trial_that_declares_nothing_of_it_may_ask_for_what_it_likes(make: Any, kube: FakeKubernetes) -> None:  # noqa: F811
    kube.script("*", Script().started().runs(asking(1)))
    world = make(timeout="3s", schedule_timeout="1s", retries=0)
    assert world.run() == "failed"
    assert forced(kube) == [] and len(created(kube)) == 1


@pytest.mark.parametrize("died", ["before_the_deletion", "after_the_deletion", "after_the_creation"])
@pytest.mark.fault(
    "the launcher dies while it replaces a pod", ends="the next launcher completes it", keeps="one replacement, no pod too many"
)
def test_whoever_comes_after_a_launcher_that_died_completes_it(world: World, kube: FakeKubernetes, died: str) -> None:  # noqa: F811
    attempt = waiting(world, kube)
    assert replacement.begin_replacement(attempt, LaunchObservation(expected=1))
    if died != "before_the_deletion":
        replacement.delete_replaced_pod(attempt, attempt.api())
    if died == "after_the_creation":
        next_pod = pod_manifest(attempt.trial, requested_at=attempt.requested_at, deletions=attempt.replaced.deletions)
        attempt.api().create(next_pod)
    assert world.run() == "success"
    check_replaced(world, kube, 1, late=died != "after_the_creation")


@pytest.mark.fault("the pod vanishes before its planned deletion", ends="interrupted", keeps="nothing is deleted twice")
def test_a_pod_that_vanished_before_its_deletion_was_interrupted(world: World, kube: FakeKubernetes) -> None:  # noqa: F811
    attempt = waiting(world, kube)
    kube.become("*", Script().vanishes())
    kube.wait_for(lambda: not kube.pods(), "the pod is gone")
    assert not replacement.begin_replacement(attempt, LaunchObservation(expected=1))
    assert attempt.replaced.done == [] and attempt.seen.gone == {names.pod_name(attempt.trial, 0)}


@pytest.mark.full
@pytest.mark.fault(
    "the cluster is away during a planned deletion", ends="measured, one attempt", keeps="what it did all the same is adopted"
)
def test_a_cluster_that_is_away_between_the_two_is_waited_for(world: World, kube: FakeKubernetes) -> None:  # noqa: F811
    def away(_: PodRun) -> None:
        for asked in ("DELETE", "POST"):
            kube.answer_next(503, times=2, match=f"{asked} /api/v1/namespaces/{NS}/pods*", message="away", after_work=True)

    kube.script("*-0", Script().started().call(away).runs(asking(1)))
    assert world.run() == "success"
    (record,) = world.attempts
    assert record.failure_class is None and len(record.pods) == 2 and kube.leftovers() == []
    assert len(kube.called(f"POST /api/v1/namespaces/{NS}/pods")) > 2, "it was away, and what it did all the same was adopted"


def waiting(world: World, kube: FakeKubernetes) -> Attempt:  # noqa: F811
    """An attempt whose pod asks to be deleted, as another process of the launcher left it."""
    attempt = Attempt.next({"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id})
    attempt.create_key_secret(attempt.api())
    attempt.api().create(pod_manifest(attempt.trial, requested_at=attempt.requested_at))
    kube.wait_for(lambda: any(run.lines for run in kube.runs.values()), "the pod asks")
    attempt.started(LaunchObservation(expected=1))
    return attempt


@pytest.mark.fault("pod_delete on a provider without a volume", ends="refused", keeps="nothing is created")
def test_a_provider_without_a_volume_is_refused_before_anything_is_created(make: Any, kube: FakeKubernetes, tmp_path: Path) -> None:  # noqa: F811
    from plumbline.launch.plan import PlanError

    with pytest.raises(PlanError, match=r"cluster-a.*pod_delete.*launcher\.volume_claim.*PersistentVolumeClaim"):
        make(declare={"fault": ONCE})
    assert kube.requests == []
