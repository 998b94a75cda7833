"""When DAGs run by themselves."""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, MultipleCronTriggerTimetable

from plumbline.declarations import Declarations, Provider
from plumbline.launch.plan import declared_slots


def schedule_of(declared: Declarations, provider: Provider) -> MultipleCronTriggerTimetable | None:
    """The first of every month at each slot (UTC) of the provider's workloads; None if nothing runs on it monthly."""
    workloads = [w for w in declared.workloads_for(provider) if not w.on_demand_only]
    slots = sorted({slot for w in workloads for slot in declared_slots(provider, w)})
    return MultipleCronTriggerTimetable(*(_monthly(slot) for slot in slots), timezone="UTC") if slots else None


def monthly_report() -> CronTriggerTimetable:
    """Noon (UTC) of the day after the slots, when the slowest of them is done."""
    return CronTriggerTimetable("0 12 2 * *", timezone="UTC")


def hourly() -> CronTriggerTimetable:
    """Every hour, apart from the full hours at which slots begin."""
    return CronTriggerTimetable("23 * * * *", timezone="UTC")


def _monthly(slot: str) -> str:
    hour, minute = slot.split(":")
    return f"{int(minute)} {int(hour)} 1 * *"
