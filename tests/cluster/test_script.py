"""A team's own training script, carried into the pods by the trial, without an image of its own; a rank of it is killed."""

from __future__ import annotations

import pytest
from tests.cluster.declared import ONE, SCRIPT, SCRIPT_GANG
from tests.cluster.test_failures import recorded
from tests.cluster.test_gang import room
from tests.cluster.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


@pytest.mark.parametrize(("workload", "pods"), [(SCRIPT, 1), (SCRIPT_GANG, 2)])
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
