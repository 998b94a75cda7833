"""Schedules and assets: what starts a DAG."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from typing import Any

from airflow.sdk import Asset, AssetAlias

from plumbline.airflow.versions import AssetOrTimeSchedule, CronTriggerTimetable, MultipleCronTriggerTimetable
from plumbline.declarations import Declarations, Provider
from plumbline.launch.plan import MONTHLY_DAY, declared_slots

RESULTS = Asset(name="plumbline_results", uri="x-plumbline://results")
"""New results are in the archive; each event has {campaign_id, provider}."""

CHANGES = AssetAlias(name="provider_changed")
"""Outlet of tasks that may detect a change: a mapped task knows its provider only when it runs."""

_LATE = timedelta(minutes=5)
"""How long after a slot a DAG that is new still runs for it. Airflow's own tenth of the interval is three days of a month: a first `plumbline run`
would wait for a whole campaign beside the one that was asked for."""


def provider_changed(provider: str) -> Asset:
    """The provider changed since its last results. Each event has {provider, reason (one line), diff [{fact, old, new}], findings [ids], at}."""
    return Asset(name=f"provider_changed_{provider.replace('-', '_')}", uri=f"x-plumbline://provider_changed/{provider}")


def extras(triggering: Any, asset: Asset) -> list[Any]:
    """The `extra` of each event of an asset that started a run; `triggering`: what Airflow hands the task, None or empty of another run."""
    # An asset of Airflow 3.1 has no hash, so it can look nothing up in a dict.
    return [event.extra for event in triggering.get(asset, ())] if triggering else []


_MINUTE_OF_HOUR, _AT_NIGHT, _IN_THE_MORNING = 23, time(4, 17), time(5, 41)


def schedule_of(declared: Declarations, provider: Provider) -> Any:
    """The first of every month at each slot (UTC) of the provider's workloads, or a change of the provider; None if neither starts a run."""
    slots = sorted({slot for w in declared.monthly_workloads(provider) for slot in declared_slots(provider, w)})
    times = [f"{int(minute)} {int(hour)} {MONTHLY_DAY} * *" for hour, minute in (slot.split(":") for slot in slots)]
    monthly = MultipleCronTriggerTimetable(*times, timezone="UTC", run_immediately=_LATE) if times else None
    # Without monthly workloads there is no baseline, unless the declaration names the workloads of a change.
    if not provider.watch.enabled or not (monthly or provider.watch.workloads):
        return monthly
    changed = [provider_changed(provider.name)]
    return AssetOrTimeSchedule(timetable=monthly, assets=changed) if monthly else changed


def monthly_report() -> CronTriggerTimetable:
    """Noon (UTC) of the day after the slots, when the slowest of them is done."""
    return CronTriggerTimetable("0 12 2 * *", timezone="UTC")


def daily() -> CronTriggerTimetable:
    """Before the working day of Europe (UTC), apart from the hours at which slots usually begin."""
    return _each_day(_IN_THE_MORNING)


def nightly() -> CronTriggerTimetable:
    """After the night's slots and before the daily watch (UTC)."""
    return _each_day(_AT_NIGHT)


def hourly() -> CronTriggerTimetable:
    """Every hour, apart from the full hours at which slots begin."""
    return CronTriggerTimetable(f"{_MINUTE_OF_HOUR} * * * *", timezone="UTC")


def next_hourly(now: datetime) -> datetime:
    """The next time of `hourly`."""
    there = now.astimezone(timezone.utc).replace(minute=_MINUTE_OF_HOUR, second=0, microsecond=0)
    return there if there > now else there + timedelta(hours=1)


def _each_day(at: time) -> CronTriggerTimetable:
    return CronTriggerTimetable(f"{at.minute} {at.hour} * * *", timezone="UTC")
