"""What a DAG run asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import pytest
from tests.data.result_documents import provider, training_workload
from tests.fakes.trials import declared

from plumbline.declarations import Declarations
from plumbline.launch.plan import PlanError, RunRequest, plan
from plumbline.workflows.plan import SLOT_TOLERANCE, UNSPECIFIED_CHANGE, SlotMissed, run_parameters

SLOT = datetime(2026, 11, 1, 2, 0, tzinfo=timezone.utc)
FORM = {"reason": "driver upgrade", "workloads": [], "kinds": ["training", "inference"], "repeats": None, "campaign": None}


@dataclass
class Run:
    run_type: str
    run_after: datetime = SLOT
    dag_id: str = "benchmark_local_1core"
    run_id: str = "a-run"


def test_a_scheduled_run_is_one_slot_of_its_months_campaign() -> None:
    asked = run_parameters(Run("scheduled"), {}, SLOT + timedelta(minutes=3), "v7")
    assert (asked.campaign_id, asked.slot, asked.reason) == ("2026-11", "02:00", "monthly rerun")
    assert asked.origin is not None
    assert (asked.origin.dag_id, asked.origin.run_id, asked.origin.bundle_version) == ("benchmark_local_1core", "a-run", "v7")


def test_the_slot_is_told_in_utc_whatever_zone_the_run_speaks() -> None:
    tokyo = timezone(timedelta(hours=9))
    asked = run_parameters(
        Run("scheduled", datetime(2026, 12, 1, 3, 0, tzinfo=tokyo)), {}, datetime(2026, 11, 30, 18, 0, tzinfo=timezone.utc)
    )
    assert (asked.campaign_id, asked.slot) == ("2026-11", "18:00")


def test_a_missed_slot_is_never_measured_under_its_name() -> None:
    run_parameters(Run("scheduled"), {}, SLOT + SLOT_TOLERANCE)
    with pytest.raises(SlotMissed, match=f"{SLOT:%Y-%m-%d %H:%M}"):
        run_parameters(Run("scheduled"), {}, SLOT + SLOT_TOLERANCE + timedelta(seconds=1))


def test_two_on_demand_runs_never_share_a_campaign() -> None:
    first = run_parameters(Run("manual"), FORM, SLOT)
    second = run_parameters(Run("manual", SLOT + timedelta(seconds=1)), FORM, SLOT)
    assert first.campaign_id == "od-20261101-020000"
    assert first.campaign_id != second.campaign_id
    assert first.slot is None


def test_a_named_campaign_is_kept() -> None:
    assert run_parameters(Run("manual"), {**FORM, "campaign": "h100-check"}, SLOT).campaign_id == "h100-check"


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_an_on_demand_run_must_say_why(reason: str | None) -> None:
    with pytest.raises(PlanError, match="needs a reason"):
        run_parameters(Run("manual"), {**FORM, "reason": reason}, SLOT)


def test_a_run_that_the_providers_change_started_has_it_as_its_reason() -> None:
    driver, kernel = "driver 550 → 570", "kernel 6.8 → 6.9"
    changes = [{"reason": reason} for reason in (driver, kernel, driver)]
    asked = run_parameters(Run("asset_triggered"), {**FORM, "reason": None}, SLOT, changes=changes, on_change=("gpt-tiny-cpu",))
    assert asked.reason == f"{driver}; {kernel}"
    assert (asked.campaign_id, asked.slot, asked.workloads) == ("od-20261101-020000", None, ("gpt-tiny-cpu",))
    assert asked.origin is not None and asked.origin.run_id == "a-run"


def test_a_change_that_somebody_reports_in_airflow_needs_no_words() -> None:
    assert run_parameters(Run("asset_triggered"), FORM, SLOT, changes=[{"from_rest_api": True}]).reason == UNSPECIFIED_CHANGE
    assert run_parameters(Run("asset_triggered"), FORM, SLOT).reason == UNSPECIFIED_CHANGE


def test_ever_so_many_changes_fit_into_a_reason() -> None:
    assert (
        len(run_parameters(Run("asset_triggered"), FORM, SLOT, changes=[{"reason": f"fact {n} changed"} for n in range(99)]).reason) == 500
    )


def test_a_backfill_is_refused() -> None:
    with pytest.raises(PlanError, match="backfill"):
        run_parameters(Run("backfill"), FORM, SLOT)


def planned(asked: RunRequest, kind: str = "training", shipped: Declarations | None = None) -> list[str]:
    world = shipped or declared()
    return [t.trial_id for t in plan(world, world.providers["local-1core"], asked, SLOT, (kind,))]


def test_a_slot_plans_only_its_own_repeats() -> None:
    assert planned(RunRequest("2026-11", "monthly rerun", slot="02:00")) == [
        "2026-11.local-1core.training.gpt-tiny-cpu.0200.r1",
        "2026-11.local-1core.training.gpt-tiny-cpu.0200.r2",
    ]
    assert planned(RunRequest("2026-11", "monthly rerun", slot="10:00")) == []


def test_kinds_and_workloads_that_were_not_asked_for_plan_nothing() -> None:
    assert planned(RunRequest("c", "why", kinds=("inference",))) == []
    assert planned(RunRequest("c", "why", workloads=("chat-tiny-cpu",))) == []
    assert len(planned(RunRequest("c", "why", workloads=("chat-tiny-cpu",), repeats=3), "inference")) == 3


def test_an_unknown_workload_is_named() -> None:
    with pytest.raises(PlanError, match=r"chat-huge.*chat-tiny-cpu, gpt-tiny-cpu"):
        planned(RunRequest("c", "why", workloads=("chat-huge",)))


def test_on_demand_only_workloads_run_when_named_and_only_then() -> None:
    shipped = declared()
    rare = shipped.workloads["gpt-tiny-cpu"].model_copy(update={"on_demand_only": True})
    world = Declarations(shipped.providers, {**shipped.workloads, rare.name: rare}, shipped.teams, shipped.thresholds)
    assert planned(RunRequest("c", "why"), shipped=world) == []
    assert len(planned(RunRequest("c", "why", workloads=(rare.name,)), shipped=world)) == 2


def test_a_simulated_provider_that_is_silent_is_asked_for_nothing() -> None:
    launcher = {"kind": "simulated", "drift": [{"kind": "silence", "since": "2026-06", "until": "2026-07"}]}
    place, workload = provider("sim", launcher=launcher), training_workload()
    here = replace(declared(), providers={"sim": place}, workloads={workload.name: workload})
    counts = [
        len(plan(here, place, RunRequest("2026", "test"), datetime(2026, month, 1, 2, tzinfo=timezone.utc), ("training",)))
        for month in (5, 6, 7)
    ]
    assert counts == [2, 0, 2]
