"""The simulated launcher writes what a trial that ran would have left, also of one that failed."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.data.result_documents import inference_workload, provider, trial

from plumbline.declarations import Provider, Trial
from plumbline.launch.collect import collect
from plumbline.launch.registry import launcher_for
from plumbline.results import ResultStore
from plumbline.results.launch_record import launch_metrics


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path.as_uri())


def place(**fields: Any) -> Provider:
    return provider("sim", launcher={"kind": "simulated", **fields})


def asked(where: Provider) -> Trial:
    return trial(where=where, planned_at=datetime(2026, 6, 1, 2, tzinfo=timezone.utc))


def test_the_store_holds_what_was_asked_and_seen_and_the_document(store: ResultStore) -> None:
    planned = asked(place())
    record = launcher_for(planned.provider).launch(planned, store)
    (document,) = collect(store, planned.campaign_id, planned.trial_id)
    assert record.launcher == "simulated" and record.failure_class is None
    assert document.simulated and document.launch == record and document.validity.status == "valid"
    assert [row.metric for row in launch_metrics(record) if row.value] == ["provisioning_lead_time"]


def test_a_place_is_held_until_the_measurement_is_over(store: ResultStore) -> None:
    planned = asked(place())
    record = launcher_for(planned.provider).launch(planned, store)
    (document,) = collect(store, planned.campaign_id, planned.trial_id)
    assert record.events[-1].name == "finished" and document.timeline[-1].name == "measurement_finished"
    assert record.events[-1].utc > document.timeline[-1].utc


def test_another_launch_is_another_attempt_with_luck_of_its_own(store: ResultStore) -> None:
    planned = asked(place())
    for _ in range(2):
        launcher_for(planned.provider).launch(planned, store)
    first, second = collect(store, planned.campaign_id, planned.trial_id)
    assert (first.trial.attempt, second.trial.attempt) == (1, 2)
    assert first.value("step_time") != second.value("step_time")


@pytest.mark.parametrize(("failing", "exit_code"), [("insufficient_capacity", None), ("interrupted", 3)])
def test_a_failure_is_recorded_with_its_class_and_marked_simulated(store: ResultStore, failing: str, exit_code: int | None) -> None:
    planned = asked(place(failures={failing: "100%"}))
    record = launcher_for(planned.provider).launch(planned, store)
    (document,) = collect(store, planned.campaign_id, planned.trial_id)
    assert (record.failure_class, record.exit_code) == (failing, exit_code)
    assert document.validity.failure_class == failing and document.simulated


def test_failures_come_about_as_often_as_declared() -> None:
    from plumbline.kinds.simulation.draw import TrialDraw

    planned = asked(place(failures={"interrupted": "20%", "timeout": "10%"}))
    ends = [TrialDraw(planned.model_copy(update={"attempt": attempt})).ends_as() for attempt in range(1, 1001)]
    assert ends.count("interrupted") / 1000 == pytest.approx(0.2, abs=0.05)
    assert ends.count("timeout") / 1000 == pytest.approx(0.1, abs=0.04)
    assert all(TrialDraw(asked(place()).model_copy(update={"attempt": attempt})).ends_as() is None for attempt in range(1, 100))


def test_what_is_launched_in_a_silence_is_never_heard_of(store: ResultStore) -> None:
    planned = asked(place(drift=[{"kind": "silence", "since": "2026-06"}]))
    assert launcher_for(planned.provider).launch(planned, store).failure_class == "unreachable"


def test_an_accelerator_that_nobody_knows_is_a_bad_declaration(store: ResultStore) -> None:
    where = provider("sim", accelerator={"kind": "nvidia", "product": "XPU-9", "count": 1}, launcher={"kind": "simulated"})
    record = launcher_for(where).launch(asked(where), store)
    assert record.failure_class == "bad_declaration" and "XPU-9" in str(record.failure_detail)


def test_replicas_of_a_server_that_scales_come_home(store: ResultStore) -> None:
    steady = {"name": "steady", "arrivals": {"poisson": {"rate": "6/s"}}, "duration": "10s"}
    stepped = {"name": "scale_out", "rates": ["10/s", "400/s"], "hold": "1min", "down": "2min"}
    noise = {family: {"run": "0%"} for family in ("training", "inference", "start_up", "storage", "hardware")}
    where = provider(
        "sim",
        accelerator={"kind": "cpu", "count": 4},
        launcher={"kind": "simulated", "noise": noise, "scaling": {"delay": "45s", "idle": "30s"}},
    )
    workload = inference_workload(phases=[steady, stepped])
    planned = trial("inference", where=where, planned_at=datetime(2026, 6, 1, 2, tzinfo=timezone.utc), workload=workload)
    launcher_for(planned.provider).launch(planned, store)
    (document,) = collect(store, planned.campaign_id, planned.trial_id)
    assert document.launch is not None and [count.ready for count in document.launch.replicas] == [1, 2, 1]
    found = {row.metric: row.value for row in launch_metrics(document.launch, document.timeline) if row.phase == "scale_out"}
    assert found == {"time_to_scale_in": pytest.approx(30), "idle_replica_time": pytest.approx(30)}
