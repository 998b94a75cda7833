"""When DAGs run by themselves."""

from __future__ import annotations

from typing import Any

from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable

from plumbline.declarations import Declarations, Provider
from plumbline.launch.plan import declared_slots
from plumbline.orchestration.assets import provider_changed


def schedule_of(declared: Declarations, provider: Provider) -> Any:
    """The first of every month at each slot (UTC) of the provider's workloads, or when the provider was found changed; None if nothing
    runs on it monthly and a change would start nothing."""
    slots = sorted({slot for w in declared.monthly_workloads(provider) for slot in declared_slots(provider, w)})
    monthly = MultipleCronTriggerTimetable(*(_monthly(slot) for slot in slots), timezone="UTC") if slots else None
    # What nothing is measured on monthly has no baseline to be held against, unless its declaration names what a change measures.
    if not provider.watch.enabled or not (monthly or provider.watch.workloads):
        return monthly
    changed = [provider_changed(provider.name)]
    return AssetOrTimeSchedule(timetable=monthly, assets=changed) if monthly else changed


def monthly_report() -> CronTriggerTimetable:
    """Noon (UTC) of the day after the slots, when the slowest of them is done."""
    return CronTriggerTimetable("0 12 2 * *", timezone="UTC")


def daily() -> CronTriggerTimetable:
    """Before the working day of Europe (UTC), apart from the hours at which slots usually begin."""
    return CronTriggerTimetable("41 5 * * *", timezone="UTC")


def nightly() -> CronTriggerTimetable:
    """After the night's slots and before the daily watch (UTC)."""
    return CronTriggerTimetable("17 4 * * *", timezone="UTC")


def hourly() -> CronTriggerTimetable:
    """Every hour, apart from the full hours at which slots begin."""
    return CronTriggerTimetable("23 * * * *", timezone="UTC")


def _monthly(slot: str) -> str:
    hour, minute = slot.split(":")
    return f"{int(minute)} {int(hour)} 1 * *"
