"""What a provider was used for in a month, from an archive of real documents."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.data.result_documents import document, failed, inference_workload, provider, trial
from tests.fakes.trials import CONFIG

from plumbline.analysis.conclusions import conclude
from plumbline.analysis.cost.budget import BudgetUse
from plumbline.answers.campaign_bill import campaign_bill
from plumbline.answers.provider_use import budget_balance, expected_use, forecast_month
from plumbline.answers.spend import spend, spend_data
from plumbline.archive import Archive
from plumbline.declarations import Declarations, Origin, Provider, load
from plumbline.launch.monthly_estimate import estimate_trial_s
from plumbline.metrics.formatting import format_money
from plumbline.presentation.verdicts import campaign_verdict
from plumbline.results import Event, LaunchRecord, Reason, ResultDocument, Validity
from plumbline.workflows.budget import apply_budget
from plumbline.workflows.report import campaign_data

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
PRICE = {"purchase": "on_demand", "price": "90 USD/h", "since": "2026-01-01", "source": "contract 7"}
PLACE = provider(prices=[PRICE], budget={"usd_per_month": 100})
LIMIT_S = 600.0


def measured(archive: Archive, days: float = 0, seconds: float = 40, run: str | None = None, **asked: Any) -> ResultDocument:
    """Record a trial that began an hour and a minute after it was planned, and held the provider for `seconds`."""
    wanted = trial(where=PLACE.of_trial(), planned_at=NOW - timedelta(days=days), **{"campaign": "2026-11", **asked})
    if run is not None:
        wanted = wanted.model_copy(update={"origin": Origin(dag_id="benchmark_lab_2core", run_id=run)})
    began = wanted.planned_at + timedelta(hours=1)
    moments = (("harness_started", 0.0), ("harness_finished", seconds))
    timeline = tuple(Event(name=name, utc=began + timedelta(seconds=s), monotonic_s=s) for name, s in moments)
    made = document(wanted, timeline=timeline)
    archive.record(made, uri="file:///nowhere")
    return made


def used_s(archive: Archive, **how: Any) -> float:
    """USD used, as seconds of the one instance."""
    usd = budget_balance(archive, PLACE, NOW, **how).used.usd
    assert usd is not None
    return round(usd / 90 * 3600, 4)


def test_every_attempt_of_this_month_counts_by_the_time_that_it_held_the_provider(archive: Archive) -> None:
    assert budget_balance(archive, PLACE, NOW).used == BudgetUse()
    measured(archive, repeat=1)
    measured(archive, repeat=1, attempt=2, seconds=20)
    measured(archive, days=20, repeat=2, seconds=100)
    assert used_s(archive) == 160
    assert budget_balance(archive, PLACE, NOW).month == "2026-11"


def test_usd_follow_the_accepted_price_from_its_day_on(archive: Archive) -> None:
    measured(archive, days=10, repeat=1)
    latest = measured(archive, days=1, repeat=2).trial.workload
    archive.accept_price(PLACE.name, "on_demand", None, 45.0, (NOW - timedelta(days=5)).date(), "their list", by="ada", why="cheaper")
    assert used_s(archive) == 40 + 40 / 2
    assert expected_use(archive, PLACE, latest, NOW).usd == pytest.approx(45.0 * 40 / 3600)


def test_the_month_of_the_beginning_counts_not_that_of_the_campaign(archive: Archive) -> None:
    measured(archive, days=20.5 + 0.5 / 24, campaign="2026-10")  # planned at 23:30 on the last of October
    assert used_s(archive) == 40
    measured(archive, days=21, campaign="2026-10", repeat=2)
    assert used_s(archive) == 40


def test_a_trial_whose_time_nobody_saw_counts_as_its_launcher_limits_it(archive: Archive) -> None:
    archive.record(failed(trial(where=PLACE.of_trial(), planned_at=NOW, campaign="2026-11")), uri="file:///nowhere")
    assert used_s(archive) == LIMIT_S


def test_what_never_got_a_place_held_nothing(archive: Archive) -> None:
    lost = failed(trial(where=PLACE.of_trial(), planned_at=NOW, campaign="2026-11"), "insufficient_capacity")
    waited = Event(name="requested", utc=NOW, monotonic_s=1.0, clock="launcher")
    archive.record(lost.with_launch(LaunchRecord(launcher="local", events=(waited,), exit_code=None)), uri="file:///nowhere")
    absent = trial(where=PLACE.of_trial(), planned_at=NOW, campaign="2026-11", repeat=2)
    reason = Reason(code="never_launched", detail="planned only")
    archive.record(
        ResultDocument.sealed(trial=absent, harness_version="unknown", validity=Validity(status="missing", reasons=(reason,))),
        uri="file:///nowhere",
    )
    assert len(archive.held_since(PLACE.name, NOW - timedelta(days=30))) == 2
    assert used_s(archive) == 0


def test_a_correction_is_no_second_run(archive: Archive) -> None:
    made = measured(archive)
    again = document(made.trial.model_copy(update={"attempt": 2}), timeline=made.timeline)
    archive.correct(again, 1, action="reject", uri="file:///nowhere", by="a person", why="a neighbour")
    assert used_s(archive) == 40


def test_other_providers_and_the_run_itself_do_not_count(archive: Archive) -> None:
    measured(archive, run="scheduled__1")
    assert used_s(archive, apart="scheduled__1") == 0
    assert used_s(archive, apart="scheduled__2") == 40
    other: Provider = PLACE.model_copy(update={"name": "elsewhere"})
    assert budget_balance(archive, other, NOW).used == BudgetUse()


def test_a_budget_that_is_not_declared_has_no_balance(archive: Archive) -> None:
    with pytest.raises(ValueError, match=r"lab-2core .*usd_per_month"):
        budget_balance(archive, PLACE.of_trial(), NOW)


def test_the_next_trial_is_expected_to_take_what_the_last_ones_of_its_series_took(archive: Archive) -> None:
    workload = trial().workload

    def seconds(apart: str | None = None) -> float:
        usd = expected_use(archive, PLACE, workload, NOW, apart).usd
        assert usd is not None
        return round(usd / 90 * 3600, 4)

    assert seconds() == pytest.approx(estimate_trial_s(workload, PLACE), abs=1e-4), (
        "of a series without a trial, what `plumbline check` says"
    )
    hasty = PLACE.model_copy(update={"launcher": PLACE.launcher.model_copy(update={"timeout": 5.0})})
    assert expected_use(archive, hasty, workload, NOW).usd == pytest.approx(90.0 * 5 / 3600), "a launcher allows no more"
    for repeat, took in enumerate((10.0, 20.0, 30.0), 1):
        measured(archive, days=1, repeat=repeat, seconds=took, run="earlier")
    assert seconds() == 20
    measured(archive, repeat=4, seconds=500, run="this")
    measured(archive, repeat=5, seconds=500, run="this")
    measured(archive, repeat=6, seconds=500, run="this")
    assert seconds(apart="this") == 20


def test_a_whole_rerun_takes_every_slot_and_repeat_of_what_runs_monthly(archive: Archive) -> None:
    monthly, rare = trial().workload, trial("inference").workload.model_copy(update={"on_demand_only": True})
    shipped = load(CONFIG)
    world = Declarations({PLACE.name: PLACE}, {monthly.name: monthly, rare.name: rare}, {}, shipped.thresholds)
    measured(archive, days=1, seconds=30)
    month = forecast_month(archive, world, PLACE, NOW)
    usd = month.use.usd
    assert month.times == "measured" and usd is not None and round(usd / 90 * 3600, 4) == 2 * 30, "one slot, two repeats"


@pytest.mark.parametrize(("sold_by", "paid"), [("instance", 1.0), ("gpu", 0.125)])
def test_forecast_budget_bill_and_spend_call_one_of_eight_gpus_the_same(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, sold_by: str, paid: float
) -> None:
    # 40 s at 90 USD/h are 1 USD for the instance and 0.125 USD for one GPU of eight.
    gpus = {"accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1}}
    place = provider("sim-h100", **gpus, sold_by=sold_by, prices=[PRICE], budget={"usd_per_month": 5})
    workload = inference_workload(needs={"accelerator": "nvidia"})
    asked = trial("inference", where=place.of_trial(), workload=workload, planned_at=NOW, campaign="2026-11")
    moments = (("harness_started", 0.0), ("harness_finished", 40.0))
    timeline = tuple(Event(name=name, utc=NOW + timedelta(seconds=s), monotonic_s=s) for name, s in moments)
    archive.record(document(asked, timeline=timeline, simulated=True), uri="file:///nowhere")
    declared = Declarations({place.name: place}, {workload.name: workload}, {}, load(CONFIG).thresholds)
    used = budget_balance(archive, place, NOW).used
    assert (used.usd, used.share) == (pytest.approx(paid, abs=1e-6), pytest.approx(0.125, abs=1e-6))
    forecast = forecast_month(archive, declared, place, NOW)
    assert (forecast.use.usd, forecast.use.share) == (
        pytest.approx(forecast.trials * paid, abs=1e-5),
        pytest.approx(forecast.trials / 8, abs=1e-5),
    )
    (cost,) = campaign_bill(archive, declared, "2026-11").by_provider()
    assert cost.bill.paid is not None and cost.bill.share is not None
    assert (cost.bill.paid.amount, cost.bill.share.amount) == (used.usd, used.share)
    month = spend(archive, declared, NOW)
    (row,), (total,), (balance,) = month.rows, month.sums, month.balances
    assert row.current == total.current == balance.used == used and row.coming == forecast.use
    (told,) = spend_data(month.rows)
    assert (told["this_paid"], told["this_share"], told["next_paid"]) == (used.usd, used.share, forecast.use.usd)
    monkeypatch.setattr("plumbline.workflows.report.load_in_force", lambda: declared)
    spent = campaign_verdict(conclude(campaign_data(archive, "2026-11"))).tiles[0]
    assert (spent.name, spent.value) == ("Spent", format_money(used.usd))
    assert (format_money(used.share) in spent.note) == (sold_by == "instance")
    planned = [asked.model_copy(update={"repeat": repeat}) for repeat in range(1, 9)]
    kept = apply_budget(archive, place, planned, NOW).kept
    assert len(kept) == (4 if sold_by == "instance" else 8), "the hard stop counts what is paid: 1 USD is spent, 4 of 5 are left"
