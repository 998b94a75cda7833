"""A pod that nothing watches any more is ended and recorded before its trial is collected; what is over or another's is left alone."""

from __future__ import annotations

import pytest
from tests.fakes.fake_kubernetes import Script
from tests.fakes.pod_harness import harness
from tests.unit.launch.cluster.operate.test_attempt import NS, World, kube, world

from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.observe.observation import LaunchObservation
from plumbline.launch.cluster.operate.closing import close_attempt
from plumbline.launch.remote import UNFINISHED
from plumbline.workflows import collect

__all__ = ["kube", "world"]


@pytest.mark.fault("a task is marked by hand after its pod started", ends="interrupted", keeps="the pod's timeline and log")
def test_a_pod_without_a_watch_is_deleted_and_recorded_before_its_trial_is_collected(world: World) -> None:
    world.kube.script("*", Script().started().log("step 1"))
    attempt = world.begin()
    world.pod_is("Running")
    attempt.started(LaunchObservation(expected=1))
    stranger = {"metadata": {"name": "stranger", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "x"}]}}
    world.kube.store.create("pods", NS, stranger)
    another = world.trial.model_copy(update={"campaign_id": "another"})
    attempt.api().create(pod_manifest(another, requested_at=attempt.requested_at))
    result = collect.collect_trial(world.spec, settle=True)
    assert (result["attempts"], result["failure_class"]) == (1, "interrupted")
    record = world.record()
    assert record.failure_class == "interrupted" and record.failure_detail != UNFINISHED
    assert [pod.node for pod in record.pods] == ["node-1"] and "step 1" in record.log_tail
    assert set(world.kube.pods()) == {"stranger", pod_manifest(another, requested_at=attempt.requested_at)["metadata"]["name"]}


@pytest.mark.fault("a task is marked by hand, and its pod ended well", ends="valid", keeps="the result")
def test_a_pod_that_had_ended_well_is_a_result(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    world.begin()
    world.pod_is("Succeeded")
    assert collect.collect_trial(world.spec, settle=True)["status"] == "valid"
    assert world.record().failure_class is None and world.kube.leftovers() == []


@pytest.mark.fault("a task is marked by hand while the cluster is away", ends="unreachable", keeps="the fact that its pod may still run")
def test_a_cluster_that_is_away_is_recorded_with_what_may_still_run(world: World) -> None:
    world.kube.script("*", Script().started())
    attempt = world.begin()
    world.pod_is("Running")
    attempt.started(LaunchObservation(expected=1))
    world.kube.answer_next(403, times=1000)
    assert collect.collect_trial(world.spec, settle=True)["failure_class"] == "bad_declaration"
    assert "HTTP 403" in str(world.record().failure_detail) and world.kube.leftovers() != []


def test_what_is_recorded_already_is_not_asked_of_the_cluster(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    close_attempt(attempt)
    asked = len(world.kube.requests)
    assert ClusterLauncher().settle(world.spec) == []
    assert len(world.kube.requests) == asked


def test_collecting_a_campaign_by_hand_ends_no_pod(world: World) -> None:
    """`plumbline archive collect` may run while its trials do."""
    world.kube.script("*", Script().started())
    world.begin()
    world.pod_is("Running")
    collect.collect_trial(world.spec)
    assert len(world.kube.pods()) == 1
