"""Operator and trigger of the checks of uptime and capacity: between two checks nothing but a row of the triggerer waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from plumbline import workflows
from plumbline.airflow.schedules import next_hourly

_log = logging.getLogger(__name__)
_BEFORE_NEXT = timedelta(seconds=30)
"""Between the end of an hour's checks and the next run."""
EARLIEST_S = 20.0
"""See `airflow.triggers.EARLIEST_S`."""
LIMIT = timedelta(hours=2)


@dataclass(eq=False, repr=False)
class AvailabilityTrigger(BaseTrigger):  # type: ignore[misc]  # airflow's types are not followed
    """Checks a provider whenever a check is due. Fires {"findings": ids, "checks": n} once a finding opened, changed or resolved, or when no
    further check is due before `until` (seconds since the epoch)."""

    provider: str
    until: float
    earliest_s: float = EARLIEST_S

    def __post_init__(self) -> None:
        super().__init__()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        began, checks, findings = time.monotonic(), 0, list[str]()
        while True:
            done, following = await asyncio.to_thread(workflows.check_availability.check_due, self.provider, datetime.now(timezone.utc))
            for one in done:
                self.log.info("%s: %s", self.provider, one.text)
                findings += one.findings
            checks += len(done)
            if findings or following is None or following.timestamp() >= self.until:
                break
            await asyncio.sleep(max(following.timestamp() - time.time(), 0.1))
        await asyncio.sleep(max(began + self.earliest_s - time.monotonic(), 0.0))
        yield TriggerEvent({"findings": findings, "checks": checks})


class AvailabilityOperator(BaseOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Checks one provider until shortly before the next hourly run, in the triggerer. A worker sends the alerts of what a check changed."""

    template_fields = ("provider",)

    def __init__(self, *, provider: str, **kwargs: Any) -> None:
        super().__init__(do_xcom_push=False, **kwargs)
        self.provider = provider

    def execute(self, context: Any) -> None:
        self._wait(next_hourly(datetime.now(timezone.utc)) - _BEFORE_NEXT)

    def checked(self, context: Any, event: dict[str, Any], until: float) -> None:
        """Resume from the triggerer."""
        _log.info("%s: %d checks; findings: %s", self.provider, event["checks"], ", ".join(event["findings"]) or "none")
        if event["findings"]:
            workflows.alert.send_alerts()
        if time.time() < until:
            self._wait(datetime.fromtimestamp(until, timezone.utc))

    def _wait(self, until: datetime) -> NoReturn:
        at = until.timestamp()
        self.defer(trigger=AvailabilityTrigger(self.provider, at), method_name="checked", kwargs={"until": at}, timeout=LIMIT)
        raise AssertionError("defer() returned")
