"""When a benchmark runs by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk import AssetOrTimeSchedule, MultipleCronTriggerTimetable
from airflow.timetables import trigger
from airflow.timetables.base import TimeRestriction
from croniter import croniter
from tests.fakes.trials import declared

from plumbline.airflow.schedules import provider_changed, schedule_of
from plumbline.declarations import Provider
from plumbline.declarations.providers.provider import MonitoringConfig
from plumbline.launch.plan import next_slot

DECLARED = declared()
PROVIDER = DECLARED.providers["local-1core"]


def schedule(provider: Provider, *, monthly: bool = True) -> Any:
    workloads = {n: w.model_copy(update={"on_demand_only": not monthly}) for n, w in DECLARED.workloads.items()}
    return schedule_of(replace(DECLARED, workloads=workloads), provider)


def watched(**fields: Any) -> Provider:
    return PROVIDER.model_copy(update={"watch": MonitoringConfig(**fields)})


def test_monthly_slots_or_a_change_of_this_provider() -> None:
    found = schedule(PROVIDER)
    assert isinstance(found, AssetOrTimeSchedule) and isinstance(found.timetable, MultipleCronTriggerTimetable)
    assert found.asset_condition.objects == (provider_changed("local-1core"),)
    assert provider_changed("local-1core") != provider_changed("local-2core")


@pytest.mark.parametrize("now", ["2026-11-30 12:00", "2026-12-01 01:59", "2026-12-01 02:00", "2026-12-31 23:59"])
def test_the_next_slot_is_when_airflow_starts_the_first_benchmark(now: str) -> None:
    moment = datetime.fromisoformat(f"{now}+00:00")
    starts = {
        provider.name: min(croniter(one.expression, moment).get_next(datetime) for one in timetable_of(provider).timetables)
        for provider in DECLARED.enabled_providers()
        if schedule(provider) is not None
    }
    first = min(starts.values())
    assert next_slot(DECLARED, moment) == (first, tuple(sorted(name for name, at in starts.items() if at == first)))
    assert next_slot(replace(DECLARED, providers={}), moment) is None


def timetable_of(provider: Provider) -> Any:
    return getattr(found := schedule_of(DECLARED, provider), "timetable", found)


def test_who_is_not_watched_has_his_slots_only() -> None:
    assert isinstance(schedule(watched(enabled=False)), MultipleCronTriggerTimetable)


def test_without_a_monthly_rerun_only_a_change_that_is_declared_to_measure_something() -> None:
    assert schedule(PROVIDER, monthly=False) is None
    assert schedule(watched(workloads=("gpt-tiny-cpu",)), monthly=False) == [provider_changed("local-1core")]


@pytest.mark.parametrize(("after", "own"), [(timedelta(minutes=2), True), (timedelta(hours=1), False), (timedelta(days=2), False)])
def test_a_new_dag_runs_for_a_slot_just_past_and_for_no_earlier_one(after: timedelta, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler's own class: what `plumbline run` meets in a new home on one of the first days of a month."""
    made = trigger.CronTriggerTimetable(
        "0 2 1 * *", timezone="UTC", run_immediately=schedule(watched(enabled=False)).timetables[0].run_immediately
    )
    slot = datetime(2026, 12, 1, 2, tzinfo=timezone.utc)
    monkeypatch.setattr(trigger, "utcnow", lambda: slot + after)
    first = made.next_dagrun_info(last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False))
    assert first is not None and (first.run_after == slot) is own
