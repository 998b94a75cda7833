"""When a benchmark runs by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.sdk import AssetOrTimeSchedule, MultipleCronTriggerTimetable
from tests.fakes.trials import declared

from plumbline.airflow.schedules import provider_changed, schedule_of
from plumbline.declarations import Provider
from plumbline.declarations.providers import MonitoringConfig

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


def test_who_is_not_watched_has_his_slots_only() -> None:
    assert isinstance(schedule(watched(enabled=False)), MultipleCronTriggerTimetable)


def test_without_a_monthly_rerun_only_a_change_that_is_declared_to_measure_something() -> None:
    assert schedule(PROVIDER, monthly=False) is None
    assert schedule(watched(workloads=("gpt-tiny-cpu",)), monthly=False) == [provider_changed("local-1core")]
