"""A team's own training script, carried into the pods by the trial, without an image of its own; a rank of it is killed, its pod deleted."""

from __future__ import annotations

import pytest
from tests.cluster.declared import CLAIM, ONE, SCRIPT, SCRIPT_DELETED, SCRIPT_GANG, SCRIPT_LONG
from tests.cluster.test_failures import recorded
from tests.cluster.test_gang import room
from tests.cluster.test_outages import assert_interrupted_and_measured_again, disturbed
from tests.cluster.test_pod_delete import volume
from tests.cluster.world import World

__all__ = ["volume"]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


@pytest.mark.parametrize(("workload", "pods"), [pytest.param(SCRIPT, 1, marks=pytest.mark.full), (SCRIPT_GANG, 2)])
def test_a_script_is_measured_killed_and_resumed(e2e: World, workload: str, pods: int) -> None:
    if room(e2e) < pods:
        pytest.skip(f"the cluster has {room(e2e)} cores for {pods} pods")
    run = e2e.ended(e2e.start(ONE, [workload], workload))
    assert run.state == "success", e2e.explain(run)
    document = recorded(ONE, workload)[-1]
    # Steps of a few milliseconds on shared cores may be unsteady: what is shown is the path.
    assert {reason.code for reason in document.validity.reasons if document.validity.status in ("invalid", "failed")} <= {
        "step_time_unsteady"
    }
    assert document.environment is not None and document.reproducibility is not None
    assert document.environment.facts["training.world_size"] == pods
    assert document.environment.facts["script.times"] == "seen"
    assert document.value("tokens_per_second", phase="steady")
    assert document.value("restart_penalty", phase="recovery")
    assert "losses_continue_exactly" in document.reproducibility.guarantees
    assert document.reproducibility.hashes["script_files"]
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []


@pytest.mark.full
@pytest.mark.fault("a person deletes the pod of a training script", ends="interrupted, measured again", keeps="both attempts")
def test_a_script_whose_pod_is_deleted_is_measured_again(e2e: World) -> None:
    def delete(namespace: str, pod: str) -> None:
        e2e.cluster.core.delete_namespaced_pod(pod, namespace)

    run, attempts = disturbed(e2e, SCRIPT_LONG, delete, SCRIPT_LONG)
    assert_interrupted_and_measured_again(e2e, run, attempts)
    first, second = attempts
    assert first.launch is not None and first.launch.pods[0].exit_code != 0
    assert second.value("tokens_per_second") and second.value("step_time") and second.reproducibility is not None
    assert second.reproducibility.hashes["script_files"]


@pytest.mark.full
def test_a_script_goes_on_in_the_pod_that_replaces_a_deleted_one(e2e: World, volume: None) -> None:
    run = e2e.ended(e2e.start(ONE, [SCRIPT_DELETED], SCRIPT_DELETED))
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(ONE, SCRIPT_DELETED)
    assert document.validity.failure_class is None, e2e.explain(run) or document.validity
    assert document.launch is not None and document.reproducibility is not None
    first, second = document.launch.pods
    assert second.name == f"{first.name}-1" and (first.exit_code, second.exit_code) == (None, 0)
    assert document.value("tokens_per_second") and document.value("restart_penalty", phase="recovery")
    assert "losses_continue_exactly" in document.reproducibility.guarantees
    assert {"environment_changed", "launcher_interrupted"}.isdisjoint(reason.code for reason in document.validity.reasons)
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == [f"persistentvolumeclaims/{CLAIM}"]
