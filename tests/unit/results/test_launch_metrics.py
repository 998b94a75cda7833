"""What the outside saw becomes metrics only if it was really seen, on one clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from tests.fakes.trials import PLANNED_AT

from plumbline.results import Event, LaunchRecord, MetricRow, ReplicaCount
from plumbline.results.launch_record import LOWER_BOUND, SCALED, STEP_DOWN, STEP_UP, launch_metrics


def event(name: str, at: float | None, clock: Literal["harness", "launcher"] = "launcher") -> Event:
    return Event(name=name, utc=PLANNED_AT, monotonic_s=at, clock=clock)


def lead(*events: Event) -> tuple[float | None, int]:
    (metric,) = launch_metrics(LaunchRecord(launcher="local", events=events))
    assert (metric.metric, metric.phase, metric.unit) == ("provisioning_lead_time", "cold_start", "s")
    return metric.value, metric.n


def test_from_the_request_to_the_first_sign_of_life() -> None:
    assert lead(event("queued", 1.0), event("requested", 10.0), event("process_started", 10.1), event("harness_ready", 12.5)) == (2.5, 1)


def test_the_nodes_of_a_gang_one_after_the_other() -> None:
    def gang(*at: float | None) -> dict[str, float | None]:
        events = (event("requested", 10.0), *(event("node_ready", each) for each in at), event("harness_ready", 60.0))
        return {row.metric: row.value for row in launch_metrics(LaunchRecord(launcher="simulated", events=events))[1:]}

    assert gang(50.0, 20.0, 60.0) == {"gang_ready_time_1": 10.0, "gang_ready_time_2": 40.0}
    assert gang(20.0) == {}, "one node is no gang"
    assert gang(20.0, None) == {"gang_ready_time_1": None, "gang_ready_time_2": None}, "the unseen one may have been the first"


def test_absent_is_never_zero() -> None:
    assert lead() == (None, 0)
    assert lead(event("requested", 10.0), event("process_started", 10.1)) == (None, 0)
    assert lead(event("requested", 10.0), event("harness_ready", None)) == (None, 0)
    assert lead(event("requested", 10.0), event("harness_ready", 12.0, clock="harness")) == (None, 0)


def scaled(*counts: tuple[float, int]) -> dict[str, float | None]:
    return {row.metric: row.value for row in scaled_rows(*counts)}


def scaled_rows(*counts: tuple[float, int]) -> list[MetricRow]:
    """Rows of replicas by (seconds, ready): the load rose at 10 s and fell at 100 s, and the phase ended at 200 s."""
    phase = {STEP_UP: 10.0, STEP_DOWN: 100.0, SCALED: 200.0}
    timeline = [Event(name=name, utc=PLANNED_AT + timedelta(seconds=at), monotonic_s=at) for name, at in phase.items()]
    replicas = tuple(ReplicaCount(at=PLANNED_AT.timestamp() + at, ready=ready, wanted=ready) for at, ready in counts)
    rows = launch_metrics(LaunchRecord(launcher="kubernetes", events=(), replicas=replicas), timeline)
    return [row for row in rows if row.phase == "scale_out"]


def test_replicas_beyond_those_before_the_load_rose_are_idle_after_it_fell() -> None:
    # 3 more for 30 s, 1 more for 20 s.
    assert scaled((0, 1), (40, 4), (130, 2), (150, 1)) == {"time_to_scale_in": 50, "idle_replica_time": 110}


def test_replicas_that_stay_have_no_time_to_scale_in() -> None:
    assert scaled((0, 1), (40, 3)) == {"time_to_scale_in": None, "idle_replica_time": 200}
    in_time, idle = scaled_rows((0, 1), (40, 3))
    assert in_time.reason is not None and "100s after the step down" in in_time.reason
    assert idle.method == LOWER_BOUND and scaled_rows((0, 1), (40, 4), (150, 1))[1].method is None


def test_no_more_replicas_are_no_idle_ones() -> None:
    assert scaled((0, 2)) == {"time_to_scale_in": 0, "idle_replica_time": 0}


def test_replicas_that_were_unknown_before_the_load_rose_say_nothing() -> None:
    assert scaled() == scaled((20, 2)) == {}
