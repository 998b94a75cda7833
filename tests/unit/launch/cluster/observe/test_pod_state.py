from __future__ import annotations

import pytest

from plumbline.launch.cluster.observe.observation import (
    Row,
    describe_pod,
    has_ended,
    has_succeeded,
    parse_time,
    rank_of,
    start_failure,
)


def pod(name: str = "harness", phase: str = "Running", **state: Row) -> Row:
    status = {"phase": phase, "containerStatuses": [{"name": "istio-proxy", "state": {"running": {}}}, {"name": name, "state": state}]}
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "istio-proxy"}, {"name": name}]}, "status": status}


@pytest.mark.parametrize(
    ("row", "over", "succeeded"),
    [
        (pod(running={}), False, False),
        (pod(terminated={"exitCode": 0}), True, True),
        (pod(terminated={"exitCode": 3}), True, False),
        (pod(phase="Succeeded", terminated={"exitCode": 0}), True, True),
        (pod(phase="Failed", terminated={"exitCode": 0}), True, False),
        ({"metadata": {"name": "p"}, "status": {"phase": "Failed", "reason": "Evicted"}}, True, False),
        ({"metadata": {"name": "p"}}, False, False),
    ],
)
def test_a_pod_is_over_when_its_harness_is(row: Row, over: bool, succeeded: bool) -> None:
    assert (has_ended(row), has_succeeded(row)) == (over, succeeded)


def test_a_rank_is_our_label_or_a_jobs_index() -> None:
    assert rank_of({"metadata": {"labels": {"plumbline/rank": "3"}}}) == 3
    assert rank_of({"metadata": {"labels": None, "annotations": {"batch.kubernetes.io/job-completion-index": "2"}}}) == 2
    assert rank_of({"metadata": {}}) == 0
    assert rank_of({"metadata": {"labels": {"plumbline/rank": "first"}}}) == 0


def test_times_with_and_without_a_fraction() -> None:
    assert parse_time("1970-01-01T00:00:10Z") == 10
    assert parse_time("1970-01-01T00:00:10.500000Z") == 10.5
    assert parse_time(None) is None


def test_trouble_of_an_init_container_counts() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no"}
    row = {"metadata": {}, "status": {"initContainerStatuses": [{"name": "i", "state": {"waiting": waiting}}]}}
    assert start_failure(row) == ("i", "ErrImagePull", "no")
    assert start_failure(pod(waiting={"reason": "ContainerCreating"})) is None


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"metadata": {}}, "waits for a node"),
        (pod(phase="Pending", waiting={"reason": "ContainerCreating"}), "is on n and starts"),
        (pod(phase="Pending", waiting={"reason": "ErrImagePull"}), "is on n and cannot start: ErrImagePull"),
        (pod(running={}), "runs on n"),
        ({**pod(running={}), "metadata": {"deletionTimestamp": "x"}}, "is being deleted on n"),
        (pod(terminated={"exitCode": 0, "reason": "Completed"}), "ended with exit code 0"),
        (pod(terminated={"exitCode": 137, "reason": "OOMKilled"}), "ended with exit code 137 (OOMKilled)"),
        ({"metadata": {}, "status": {"phase": "Failed", "reason": "Evicted"}}, "ended as Failed (Evicted)"),
    ],
)
def test_a_person_reads_where_a_pod_is(row: Row, text: str) -> None:
    assert describe_pod(row) == text
