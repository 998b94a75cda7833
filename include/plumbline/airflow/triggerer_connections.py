"""Operator and trigger that ask the triggerer which connections it can read: a worker may read others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from plumbline import workflows
from plumbline.airflow.versions import AirflowSkipException, TaskDeferralTimeout

_log = logging.getLogger(__name__)
EARLIEST_S = 20.0
"""See `airflow.triggers.EARLIEST_S`."""
_PATIENCE = timedelta(minutes=5)
"""A triggerer that runs takes its triggers within seconds."""


@dataclass(eq=False, repr=False)
class ConnectionsTrigger(BaseTrigger):  # type: ignore[misc]  # airflow's types are not followed
    """Fires a row of `ConnectionAnswer`. `names`: of connections; no content of one leaves the triggerer."""

    names: list[str]
    earliest_s: float = EARLIEST_S

    def __post_init__(self) -> None:
        super().__init__()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"names": self.names, "earliest_s": self.earliest_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        began = time.monotonic()
        answer = await asyncio.to_thread(workflows.check_connections.read_connections, self.names)
        await asyncio.sleep(max(began + self.earliest_s - time.monotonic(), 0.0))
        yield TriggerEvent(asdict(answer))


class ConnectionsOperator(BaseOperator):  # type: ignore[misc]  # airflow's types are not followed
    """Asks the triggerer, stores the findings, and returns the answer, which the doctor reads. Skipped where no connection is needed."""

    def execute(self, context: Any) -> None:
        names = workflows.check_connections.needed_now()
        if not names:
            raise AirflowSkipException("no enabled provider needs a connection in the triggerer")
        self.defer(trigger=ConnectionsTrigger(names), method_name="answered", timeout=_PATIENCE)

    def answered(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Resume from the triggerer."""
        if workflows.check_connections.store_answer(event, datetime.now(timezone.utc)):
            workflows.alert.send_alerts()
        return event

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Resume; a triggerer that is away has its own finding."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            _log.warning("The triggerer did not answer within %s: which connections it lacks is not shown", _PATIENCE)
            return None
