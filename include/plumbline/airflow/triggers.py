"""Triggers that wait for launches which outlast their tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from plumbline.launch import progress
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.ticket import ClusterTicket, ticket_of
from plumbline.launch.failures import RequestFailed
from plumbline.launch.remote import Poll, RemoteLauncher, RequestFailures

_DELETE_LIMIT_S = 25.0
"""Limit of the deletion: Airflow gives `on_kill` 30 s ([triggerer] on_kill_timeout)."""
_STATE_PATIENCE_S = 15.0
"""Limit of the question whether the task is deferred: the first one after a triggerer's start imports Airflow's API."""
_REQUEST_TIMEOUT_S = 20.0
_THREADS = ThreadPoolExecutor(64, "cancel")
"""The threads of all cancellations: a place that does not answer must not hold those of other libraries."""
_deleting: set[asyncio.Task[None]] = set()
"""References to running deletions, so that they are not garbage-collected."""
EARLIEST_S = 20.0
"""Airflow 3.3 fails a task whose trigger fires before the scheduler has recorded its deferral (apache/airflow issue 72716). Seen after 5 s on a
busy scheduler, never after 20 s."""


class RemoteTrigger(BaseTrigger):  # type: ignore[misc]  # airflow's types are not followed
    """Polls a launch until its end, and fires once: {"status": the poll's end, …what was seen}. An event costs an execution of the task.

    `launcher`: `module:class` of a RemoteLauncher. `ticket`: of the launch. `earliest_s`: see EARLIEST_S.
    """

    launcher: str
    earliest_s: float

    def __init__(self, launcher: str, ticket: Mapping[str, Any], earliest_s: float = 0.0) -> None:
        super().__init__()
        self.launcher, self._ticket, self.earliest_s = launcher, dict(ticket), earliest_s

    @property
    def ticket(self) -> Mapping[str, Any]:
        return self._ticket

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class's path and its arguments, without secrets."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self._arguments()

    def _arguments(self) -> dict[str, Any]:
        return {"launcher": self.launcher, "ticket": dict(self.ticket), "earliest_s": self.earliest_s}

    def _made_launcher(self) -> RemoteLauncher[Any]:
        made: RemoteLauncher[Any] = resolve_name(self.launcher)()
        return made

    async def run(self) -> AsyncIterator[TriggerEvent]:
        began = time.monotonic()
        # Asked now: the first answer takes many seconds, which `on_kill` does not have.
        self._first_question = asyncio.create_task(self._is_deferred())
        end: Poll | None = None
        async with aclosing(self._made_launcher().poll(self.ticket, self.log)) as polls:
            async for poll in polls:
                if poll.end is not None:
                    end = poll
                    break
                await asyncio.sleep(poll.pause_s)
        if end is None:
            raise RuntimeError(f"{self.launcher} stopped polling {self.ticket['launch']} without an end; expected a last poll with one")
        await asyncio.sleep(max(began + self.earliest_s - time.monotonic(), 0.0))
        yield TriggerEvent({"status": end.end, **end.seen})

    async def on_kill(self) -> None:
        """A person ended the task (failed, succeeded, cleared): cancel the launch within 25 s.

        Airflow also cancels a trigger when another triggerer takes it over; the task is still deferred then, and the launch stays.
        The cancellation is its own task: Airflow (3.3.2) repeats its own every second.
        """
        work = asyncio.create_task(self._cancel())
        _deleting.add(work)
        work.add_done_callback(_deleting.discard)
        await asyncio.shield(work)

    async def _cancel(self) -> None:
        launch, launcher = self.ticket["launch"], self._made_launcher()
        if await self._is_deferred():
            self.log.warning("The trigger of %s moved to another triggerer; the launch goes on", launch)
            return
        outage, until = RequestFailures(_DELETE_LIMIT_S, launcher.place), time.monotonic() + _DELETE_LIMIT_S
        cancel = partial(launcher.cancel, self.ticket, patience_s=0.0, timeout_s=min(_REQUEST_TIMEOUT_S, _DELETE_LIMIT_S / 4))
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(_THREADS, partial(copy_context().run, cancel))
            except RequestFailed as problem:
                gives_up = outage.failed(problem, time.monotonic()) is not None
                pause = outage.wait_s(problem)
                if gives_up or time.monotonic() + pause > until:
                    self.log.error("Could not cancel %s; upkeep sweeps it when it expires; last error: %s", launch, problem)
                    break
                await asyncio.sleep(pause)
            else:
                self.log.info("Cancelled %s: the task was ended", launch)
                break
        await asyncio.to_thread(progress.remove_progress, self.ticket["trial_id"])

    async def _is_deferred(self) -> bool:
        """Whether the task is still deferred; False if unknown, as an orphan costs more than a repeat."""
        if self.task_instance is None:
            return False
        try:
            return await asyncio.wait_for(asyncio.to_thread(_state_of, self.task_instance), _STATE_PATIENCE_S) == "deferred"
        except Exception as error:  # noqa: BLE001 - the SDK's error depends on the part that fails
            self.log.warning("Could not read the task state of %s (%s); assuming it has ended", self.ticket["launch"], error)
            return False


@dataclass(eq=False, repr=False)
class LaunchTrigger(ClusterTicket, RemoteTrigger):
    """Waits for the pods of a launch on a cluster; its row is the launch's ticket. Fires "finished", "stopped" or "deletion_asked"."""

    earliest_s: float = 0.0

    def __post_init__(self) -> None:
        RemoteTrigger.__init__(self, _CLUSTER, self.row, self.earliest_s)

    @classmethod
    def of(cls, attempt: Attempt) -> LaunchTrigger:
        """The trigger of an attempt."""
        return cls(**vars(ticket_of(attempt)), earliest_s=EARLIEST_S)

    def _arguments(self) -> dict[str, Any]:
        return {**self.row, "earliest_s": self.earliest_s}


_CLUSTER = f"{ClusterLauncher.__module__}:{ClusterLauncher.__name__}"


def _state_of(task: Any) -> str | None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    state = states[task.run_id].get(task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}")
    return None if state is None else str(state)
