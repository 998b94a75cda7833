"""Starting several providers on demand: all or none, and what stands in the way is said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import pytest
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow
from tests.fakes.trials import declared as shipped

from plumbline.archive import open_archive
from plumbline.declarations import Budget, Declarations
from plumbline.embedded.client import AirflowClient, AirflowError, start_runs
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.launch.plan import PlanError, RunRequest
from plumbline.workflows.budget import apply_budgets
from plumbline.workflows.plan import RunsNotStarted, on_demand_campaign_id, plan_runs

ASKED = RunRequest("od-1", "new driver", workloads=("gpt-tiny-cpu",), repeats=3)
BOTH = ["local-2core", "local-1core"]
declared = cache(shipped)


def dag(name: str, paused: bool = False, stale: bool = False) -> dict[str, object]:
    return {"dag_id": name, "is_paused": paused, "is_stale": stale, "last_parsed_time": "2026-11-21T10:00:00Z"}


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    with fake_airflow() as fake:
        fake.dags = [dag("benchmark_local_1core"), dag("benchmark_local_2core")]
        yield fake


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[AirflowClient]:
    with AirflowClient(airflow.address, "admin", "right") as opened:
        yield opened


def test_one_campaign_over_several_providers_each_by_its_own_form() -> None:
    found = plan_runs(declared(), ASKED, BOTH)
    assert [(s.provider, s.dag_id, s.trials) for s in found] == [
        ("local-1core", "benchmark_local_1core", 3),
        ("local-2core", "benchmark_local_2core", 3),
    ]
    assert found[0].conf == {
        "campaign": "od-1",
        "reason": "new driver",
        "workloads": ["gpt-tiny-cpu"],
        "kinds": ["training"],
        "repeats": 3,
    }


@pytest.mark.parametrize(
    ("asked", "providers", "message"),
    [
        (RunRequest("od-1", " "), BOTH, "reason"),
        (ASKED, ["nowhere"], 'nowhere"; .*local-1core, local-2core'),
        (RunRequest("od-1", "why", workloads=("huge",)), BOTH, "huge"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_starts(asked: RunRequest, providers: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan_runs(declared(), asked, providers)


def test_a_provider_that_can_run_nothing_of_it_is_named_while_others_could() -> None:
    known = declared()
    training = {"gpt-tiny-cpu": known.workloads["gpt-tiny-cpu"].model_copy(update={"providers": ("local-1core",)})}
    world = Declarations(known.providers, {**known.workloads, **training}, known.teams, known.thresholds)
    with pytest.raises(PlanError, match=r" local-2core;"):
        plan_runs(world, ASKED, BOTH)


def limited(usd: float) -> Declarations:
    known = declared()
    place = known.providers["local-1core"].model_copy(update={"budget": Budget(usd_per_month=usd)})
    return Declarations({**known.providers, place.name: place}, known.workloads, known.teams, known.thresholds)


def test_what_the_budget_leaves_out_is_counted_and_a_spent_one_starts_nothing(tmp_path: Path) -> None:
    place = declared().providers["local-1core"]
    one = 0.02 * estimate_trial_s(declared().workloads["gpt-tiny-cpu"], place) / 3600
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        world = limited(2 * one)
        first, second = apply_budgets(archive, world, ASKED, plan_runs(world, ASKED, BOTH))
        assert (first.trials, first.left_out, second.trials, second.left_out, second.budget) == (2, 1, 3, 0, None)
        assert first.budget is not None and f"{2 * one:.3g} USD" in first.budget
        spent = limited(one / 2)
        with pytest.raises(RunsNotStarted, match=r"^local-1core: .*`budget`"):
            apply_budgets(archive, spent, ASKED, plan_runs(spent, ASKED, BOTH))


def test_every_run_is_started_with_its_form(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.runs["benchmark_local_2core"] = [
        {"dag_id": "benchmark_local_2core", "dag_run_id": "scheduled__1", "state": "running", "run_type": "scheduled", "conf": {}}
    ]
    started = start_runs(client, plan_runs(declared(), ASKED, BOTH))
    assert [(s.start.provider, s.run_id, s.waits_for) for s in started] == [
        ("local-1core", airflow.runs["benchmark_local_1core"][0]["dag_run_id"], None),
        ("local-2core", airflow.runs["benchmark_local_2core"][1]["dag_run_id"], "scheduled__1"),
    ]
    assert airflow.runs["benchmark_local_1core"][0]["conf"]["reason"] == "new driver"


@pytest.mark.parametrize(
    ("dags", "message"),
    [
        ([dag("benchmark_local_1core")], "benchmark_local_2core is not"),
        ([dag("benchmark_local_1core"), dag("benchmark_local_2core", stale=True)], "benchmark_local_2core is not"),
        (
            [dag("benchmark_local_1core"), dag("benchmark_local_2core", paused=True)],
            r"`plumbline airflow dags unpause benchmark_local_2core`",
        ),
    ],
)
def test_a_run_that_would_wait_unseen_starts_none(
    airflow: FakeAirflow, client: AirflowClient, dags: list[dict[str, object]], message: str
) -> None:
    airflow.dags = dags
    with pytest.raises(RunsNotStarted, match=message):
        start_runs(client, plan_runs(declared(), ASKED, BOTH))
    assert airflow.runs == {}


@pytest.mark.fault(
    "a provider enabled while Airflow runs has no pool", ends="made by the trigger, or refused", keeps="no run that waits unseen"
)
def test_a_missing_pool_is_made_before_the_run_or_refuses_it(airflow: FakeAirflow, client: AirflowClient) -> None:
    start_runs(client, plan_runs(declared(), ASKED, BOTH))
    assert airflow.pools["plumbline_this-machine"]["slots"] == 1 and airflow.pools["plumbline_this-machine"]["include_deferred"]
    airflow.pools.clear()
    airflow.runs.clear()
    airflow.answers["POST", "/api/v2/pools"] = (403, {"detail": "Forbidden"})
    with pytest.raises(RunsNotStarted, match=r"plumbline_this-machine.*Forbidden.*--rm init"):
        start_runs(client, plan_runs(declared(), ASKED, BOTH))
    assert airflow.runs == {}


def test_what_was_started_before_airflow_failed_is_said(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.answers["POST", "/api/v2/dags/benchmark_local_2core/dagRuns"] = (403, {"detail": "Forbidden"})
    with pytest.raises(AirflowError, match=r"(?s)Forbidden.*benchmark_local_1core manual__"):
        start_runs(client, plan_runs(declared(), ASKED, BOTH))


def test_a_campaign_on_demand_is_named_by_its_time() -> None:
    assert on_demand_campaign_id(datetime(2026, 11, 20, 23, 42, tzinfo=timezone.utc)) == "od-20261120-234200"
