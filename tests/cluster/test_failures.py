"""What goes wrong on a cluster: each ends as a recorded trial of the right class, is tried again or not as declared, and leaves nothing.

One campaign holds them all, beside a provider that works: its trial must not notice.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.cluster.declared import DEADLINE, EXIT_CODE, NINE_GPUS, NO_IMAGE, ONE, OUT_OF_MEMORY, THREE_MINUTES, TRAIN
from tests.cluster.world import FAILING_EXIT_CODE, World

from plumbline.archive import open_archive
from plumbline.embedded.client import DagRun
from plumbline.results import ResultDocument

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

CAMPAIGN = "e2e-failures"


@dataclass(frozen=True)
class Expected:
    """How a broken provider's trial is recorded. `said`: what a person must find in the sentence about it."""

    failure_class: str
    attempts: int
    said: str


BROKEN = {
    OUT_OF_MEMORY: Expected("out_of_memory", 1, "300"),
    EXIT_CODE: Expected("harness_error", 1, str(FAILING_EXIT_CODE)),
    NO_IMAGE: Expected("image_error", 1, "localhost/plumbline/nowhere:1"),
    NINE_GPUS: Expected("launch_timeout", 2, "nvidia.com/gpu"),
    DEADLINE: Expected("timeout", 1, "timeout"),
}


@pytest.fixture(scope="module")
def runs(e2e: World) -> dict[str, DagRun]:
    started = {name: e2e.start(name, [THREE_MINUTES if name == DEADLINE else TRAIN], CAMPAIGN) for name in (ONE, *BROKEN)}
    return {name: e2e.ended(run) for name, run in started.items()}


def recorded(provider: str, campaign: str = CAMPAIGN) -> list[ResultDocument]:
    """Every attempt of a provider's one trial, as the archive holds it."""
    with open_archive() as archive:
        found = [archive.document(t.trial_id, t.attempt) for t in archive.trials(campaign, provider=provider)]
    return [document for document in found if document is not None]


@pytest.mark.parametrize("provider", BROKEN)
@pytest.mark.fault("the container exceeds its memory limit", ends="out_of_memory", keeps="the pod's timeline and log")
@pytest.mark.fault("the image's program exits with an error", ends="harness_error", keeps="the pod's timeline and log")
@pytest.mark.fault("the image does not exist", ends="image_error", keeps="the pod's timeline")
@pytest.mark.fault(
    "no node has as many GPUs", ends="launch_timeout, tried twice: whose pods hold them is not shown", keeps="the pod's timeline"
)
@pytest.mark.fault("the trial exceeds launcher.timeout", ends="timeout", keeps="the pod's timeline and log")
def test_each_failure_is_recorded_with_its_class(e2e: World, runs: dict[str, DagRun], provider: str) -> None:
    expected = BROKEN[provider]
    attempts = recorded(provider)
    assert [a.validity.failure_class for a in attempts] == [expected.failure_class] * expected.attempts, e2e.explain(runs[provider])
    for attempt in attempts:
        assert attempt.launch is not None
        assert expected.said in (attempt.launch.failure_detail or ""), attempt.launch.failure_detail
        assert attempt.launch.pods, "the pod's timeline is data also when it failed"
    assert e2e.task(runs[provider], "training.trial.run").state == "failed", "a red task is what a person sees"


def test_a_failed_trial_is_no_failure_of_ours(runs: dict[str, DagRun]) -> None:
    assert {name: run.state for name, run in runs.items()} == dict.fromkeys(runs, "success")


@pytest.mark.fault("five of six providers fail in one campaign", ends="the sixth is valid", keeps="the sixth trial's result")
def test_the_trial_beside_them_is_measured(e2e: World, runs: dict[str, DagRun]) -> None:
    (document,) = recorded(ONE)
    assert document.validity.status in ("valid", "degraded"), document.validity


def test_a_pod_that_is_out_of_memory_is_told_from_one_that_exits(runs: dict[str, DagRun]) -> None:
    (memory,), (exit_code,) = recorded(OUT_OF_MEMORY), recorded(EXIT_CODE)
    assert memory.launch is not None
    assert exit_code.launch is not None
    assert memory.launch.pods[0].reason == "OOMKilled"
    assert exit_code.launch.exit_code == FAILING_EXIT_CODE
    assert "this image is broken" in exit_code.launch.log_tail


@pytest.mark.fault("failed trials on a cluster", ends="no pod or Secret left", keeps="nothing on the cluster")
def test_nothing_is_left_of_them(e2e: World, runs: dict[str, DagRun]) -> None:
    assert e2e.cluster.leftovers(e2e.namespace(ONE)) == []
