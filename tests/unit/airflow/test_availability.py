"""The checks between campaigns in the triggerer: when they fire, and what the worker does then."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from plumbline.airflow.availability import AvailabilityOperator, AvailabilityTrigger
from plumbline.airflow.schedules import next_hourly
from plumbline.results.availability_check import AvailabilityCheck
from plumbline.workflows import alert, check_availability
from plumbline.workflows.check_availability import CheckResult


def fired(until: float, patch: pytest.MonkeyPatch, answers: list[tuple[tuple[str, ...], float | None]]) -> tuple[dict[str, Any], int]:
    """The event of a trigger whose checks find `answers`: ids of findings, and seconds until the next check; and how often it checked."""
    asked: list[str] = []

    def check_due(name: str, now: datetime) -> tuple[tuple[CheckResult, ...], datetime | None]:
        findings, wait_s = answers[len(asked)]
        asked.append(name)
        done = CheckResult(name, "uptime", AvailabilityCheck(name, "uptime", now), findings=findings)
        return (done,), None if wait_s is None else datetime.now(timezone.utc) + timedelta(seconds=wait_s)

    patch.setattr(check_availability, "check_due", check_due)

    async def first() -> Any:
        return await anext(AvailabilityTrigger("lab", until, earliest_s=0.0).run())

    return asyncio.run(first()).payload, len(asked)


def test_it_checks_again_and_again_until_a_finding_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    event, checks = fired(time.time() + 3600, monkeypatch, [((), 0.05), ((), 0.05), (("f1",), 0.05)])
    assert (event, checks) == ({"findings": ["f1"], "checks": 3}, 3)


@pytest.mark.parametrize("following", [3700.0, None])
def test_it_ends_where_no_check_is_due_before_the_next_run(monkeypatch: pytest.MonkeyPatch, following: float | None) -> None:
    event, checks = fired(time.time() + 3600, monkeypatch, [((), following)])
    assert (event, checks) == ({"findings": [], "checks": 1}, 1)


def test_a_row_of_the_triggerer_rebuilds_it() -> None:
    path, arguments = AvailabilityTrigger("lab", 5.0).serialize()
    assert path == "plumbline.airflow.availability.AvailabilityTrigger"
    assert AvailabilityTrigger(**arguments).serialize() == (path, arguments)


def test_the_task_defers_until_the_next_run_and_alerts_of_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(alert, "send_alerts", lambda: sent.append(1))
    task = AvailabilityOperator(task_id="checks", provider="lab")
    before = next_hourly(datetime.now(timezone.utc))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    after = next_hourly(datetime.now(timezone.utc))  # another one, if the hourly run was due meanwhile
    assert isinstance(deferred.value.trigger, AvailabilityTrigger)
    assert any(0 < at.timestamp() - deferred.value.trigger.until <= 3600 for at in (before, after))
    with pytest.raises(TaskDeferred):
        task.checked({}, {"findings": ["f1"], "checks": 3}, time.time() + 600)
    assert sent == [1]
    task.checked({}, {"findings": [], "checks": 3}, time.time() - 1)
    assert sent == [1]
