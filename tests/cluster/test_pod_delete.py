"""A trial whose fault deletes its pod: the next one goes on from the volume, and both are one attempt with one document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.declared import CLAIM, DELETED, ONE
from tests.cluster.test_failures import recorded
from tests.cluster.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

_PARTS = ("restart_detect_time", "restart_launch_time", "checkpoint_load_time", "restart_recompute_time")


@pytest.fixture
def volume(e2e: World) -> Iterator[None]:
    """A folder of the node as a volume, which the pods' group may write to."""
    with e2e.cluster.volume(CLAIM, e2e.namespace(ONE), e2e.image):
        yield


@pytest.mark.fault(
    "the pod of a training is deleted and replaced",
    ends="valid, with its restart penalty",
    keeps="checkpoints on the PersistentVolumeClaim",
)
def test_the_next_pod_goes_on_and_the_penalty_has_its_parts(e2e: World, volume: None) -> None:
    run = e2e.ended(e2e.start(ONE, [DELETED], "e2e-pod-delete"))
    assert run.state == "success", e2e.explain(run)
    (document,) = recorded(ONE, "e2e-pod-delete")
    assert document.validity.status in ("valid", "degraded"), e2e.explain(run) or document.validity
    assert document.launch is not None and document.reproducibility is not None
    first, second = document.launch.pods
    assert second.name == f"{first.name}-1" and (first.exit_code, second.exit_code) == (None, 0)
    assert "losses_continue_exactly" in document.reproducibility.guarantees
    value = {row.metric: row.value or 0.0 for row in document.metrics if row.phase == "recovery"}
    assert all(value[part] > 0 for part in _PARTS)
    assert sum(value[part] for part in _PARTS) == pytest.approx(value["restart_penalty"])
    assert {"environment_changed", "launcher_interrupted"}.isdisjoint(reason.code for reason in document.validity.reasons)
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == [f"persistentvolumeclaims/{CLAIM}"]
