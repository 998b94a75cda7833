"""Waits for a launch's pods inside Airflow's triggerer: one trigger for a pod and for a gang."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from plumbline.declarations import TrainingWorkload, Trial
from plumbline.harness.progress import ProgressLine
from plumbline.launch import progress
from plumbline.launch.cluster import names, pod_state, watch
from plumbline.launch.cluster.async_api import AsyncCluster
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.log_reader import LogReader
from plumbline.launch.cluster.outage import NotAnswered, Outage
from plumbline.launch.cluster.provider import launcher_of

_SETTLE_S = 3.0
"""Between a gang's first failure and the look that ends it: kubelets report within about a second, each for itself."""
_KILL_S = 25.0
"""How long the deletion is tried: Airflow gives `on_kill` 30 s ([triggerer] on_kill_timeout)."""
_ASK_S = 15.0
"""How long Airflow may take to say whether it still waits: the first such question after a triggerer's start imports its whole API."""
_deleting: set[asyncio.Task[None]] = set()
"""Deletions under way, which nothing else holds on to."""
EARLIEST_S = 20.0
"""A task whose trigger fires before the scheduler took note of its deferral is failed as if its worker had died (Airflow 3.3, apache/airflow
issue 72716). On a busy scheduler 5 s were too soon; after 20 s it was never seen. A pod that has waited for minutes does not notice."""
_EVENTS_EVERY = 2  # times as long as between looks at pods
_EVENTS_OF = 8  # pods at a time: what holds up the others of a gang is mostly the same


@dataclass(eq=False, repr=False)
class LaunchTrigger(BaseTrigger):  # type: ignore[misc]  # airflow's types are not followed
    """Fires once: {"status": "started" | "finished" | "stopped" | "deletion_asked", …what `watch.encode` makes of what was seen}.

    Its row holds ids only: the Airflow connection is read where the trigger runs, and read again when the cluster refuses its token.
    `owner` is {"apiVersion", "kind", "name"} of the object that owns a gang's pods, None for a pod on its own. `known`: names of pods that
    exist already. `due_deletion`: which deletion of its pod the trial may ask for next, 0 for none. `requested_at` and `deadline` are seconds since the epoch. `started`: that all pods run was told before.
    `patience_s`: how long the kubelet may fail to start a container before that is believed: five of its tries, at 0, 10, 30, 70 and 150 s,
    outlast a registry's restart or a rate limit by the minute. `grace_s`: see watch.Limits. `earliest_s`: see EARLIEST_S.
    `secret`: name of the Secret that is deleted with the pods.
    """

    connection: str
    namespace: str
    selector: str
    launch: str
    trial_id: str
    expected: int
    owner: dict[str, str] | None
    requested_at: float
    schedule_timeout_s: float
    startup_timeout_s: float
    deadline: float
    unreachable_timeout_s: float
    poll_s: float
    started: bool = False
    known: Sequence[str] = ()
    grace_s: float = 60.0
    patience_s: float = 160.0
    log_every_s: float = 10.0
    request_timeout_s: float = 20.0
    earliest_s: float = 0.0
    due_deletion: int = 0
    secret: str | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self._events_at = self._log_at = 0.0
        self._clock = time.time() - time.monotonic()
        self._unread: set[str] = set()

    @classmethod
    def of(
        cls,
        trial: Trial,
        requested_at: datetime,
        *,
        owner: Row | None = None,
        known: Sequence[str] = (),
        started: bool = False,
        replaced: int = 0,
        since: datetime | None = None,
        secret: str | None = None,
    ) -> LaunchTrigger:
        """The trigger of a trial's attempt. `owner`: the API object that owns the pods of a gang. `secret`: name of its Secret, if it has one.

        `replaced`: how many pods the current one takes the place of, and `since` when: it has the time to start that the first one had.
        The trial's own time is that of all of them together.
        """
        launcher = launcher_of(trial.provider)
        declared = trial.workload.pod_deletions if isinstance(trial.workload, TrainingWorkload) else 0
        grace_s = 60.0
        return cls(
            connection=launcher.connection,
            namespace=launcher.namespace,
            selector=names.selector(trial),
            launch=names.launch_name(trial),
            trial_id=trial.trial_id,
            expected=trial.workload.nodes,
            owner=owner and {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]},
            requested_at=(since or requested_at).timestamp(),
            schedule_timeout_s=launcher.schedule_timeout,
            startup_timeout_s=launcher.startup_timeout,
            # The pods end themselves after `timeout` (activeDeadlineSeconds, from the node on): this is for what that did not end.
            deadline=requested_at.timestamp() + launcher.schedule_timeout + launcher.timeout + grace_s,
            unreachable_timeout_s=launcher.unreachable_timeout,
            poll_s=launcher.poll,
            started=started,
            known=known,
            grace_s=grace_s,
            earliest_s=EARLIEST_S,
            due_deletion=replaced + 1 if replaced < declared else 0,
            secret=secret,
        )

    def _now(self) -> float:
        """Seconds since the epoch by a clock that no correction moves: a corrected clock must end no launch and no outage."""
        return self._clock + time.monotonic()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class's path and its arguments; no secret among them."""
        arguments = {field.name: getattr(self, field.name) for field in fields(self)}
        return f"{type(self).__module__}.{type(self).__qualname__}", {**arguments, "known": list(self.known)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch until there is something to tell."""
        limits = watch.Limits(
            self.expected,
            self.requested_at,
            self.schedule_timeout_s,
            self.startup_timeout_s,
            self.deadline,
            self.patience_s,
            self.grace_s,
        )
        began = time.monotonic()
        # The first answer takes many seconds (_ASK_S). In `on_kill` that is too late: the next try of a cleared task waits by then.
        self._first_question = asyncio.create_task(self._is_deferred())
        state = watch.Watch(limits, started=self.started, known=self.known)
        outage, log = Outage(self.unreachable_timeout_s), LogReader(from_start=not self.started)
        decision: watch.Decision | None = None
        async with AsyncCluster(self.connection, self.namespace, self.request_timeout_s) as cluster:
            while decision is None:
                try:
                    decision = await self._look(cluster, state)
                except NotAnswered as problem:
                    decision, pause = self._not_answered(problem, outage)
                except Exception as error:
                    # A trigger that fails takes the task with it past its operator, and so past the deletion of its pods.
                    self.log.exception("The watch of %s failed, trying again", self.launch)
                    decision, pause = self._not_answered(NotAnswered(f"the watch itself failed: {error!r}"), outage)
                else:
                    if (lasted := outage.answered(self._now())) is not None:
                        self.log.info("The API of namespace %s answers again, after %.0f s", self.namespace, lasted)
                    await self._tell(cluster, state, log, decision)
                    if decision is None and self.due_deletion and log.asked_deletion == self.due_deletion:
                        decision = watch.Decision("deletion_asked")
                    pause = min(self.poll_s, _SETTLE_S) if state.settling else self.poll_s * random.uniform(0.9, 1.1)
                if decision is None:
                    await asyncio.sleep(pause)
        if decision.stop is not None:
            self.log.error("%s is given up, %s: %s", self.launch, decision.stop.reason, decision.stop.detail)
        await asyncio.sleep(max(began + self.earliest_s - time.monotonic(), 0.0))
        yield TriggerEvent({"status": decision.status, **watch.encode(state.seen(decision.stop))})

    async def on_kill(self) -> None:
        """Somebody ended the task (failed, succeeded, cleared): delete what the launch has on the cluster, as far as 25 s go.

        Airflow cancels a trigger in the same way when another triggerer took it over because this one was silent for a while. The task
        is still deferred then and its pods are wanted: they stay.

        The work is a task of its own, because Airflow (3.3.2) cancels again in each of its rounds, every second, what it has cancelled
        and what has not ended yet: a deletion that takes longer would end in its middle.
        """
        work = asyncio.create_task(self._delete())
        _deleting.add(work)
        work.add_done_callback(_deleting.discard)
        await asyncio.shield(work)

    async def _delete(self) -> None:
        if await self._is_deferred():
            self.log.warning("The watch of %s was moved to another triggerer; its pods stay", self.launch)
            return
        outage, until = Outage(_KILL_S), self._now() + _KILL_S
        async with AsyncCluster(self.connection, self.namespace, min(self.request_timeout_s, _KILL_S / 4)) as cluster:
            while True:
                try:
                    await cluster.delete(self.owner, self.selector, self.secret)
                except NotAnswered as problem:
                    gives_up = outage.failed(problem, self._now()) is not None
                    pause = outage.wait_s(problem)
                    if gives_up or self._now() + pause > until:
                        self.log.error("Could not delete %s, upkeep will when it expires; last: %s", self.launch, problem)
                        break
                    await asyncio.sleep(pause)
                else:
                    self.log.info("Deleted the pods of %s: somebody ended the task", self.launch)
                    break
        await asyncio.to_thread(progress.forget, self.trial_id)

    async def _look(self, cluster: AsyncCluster, state: watch.Watch) -> watch.Decision | None:
        pods, cluster_now = await cluster.pods(self.selector, cached=True)
        if state.lacks(pods):
            pods, cluster_now = await cluster.pods(self.selector, cached=False)
        return state.look(pods, self._now(), cluster_now)

    def _not_answered(self, problem: NotAnswered, outage: Outage) -> tuple[watch.Decision | None, float]:
        stop = outage.failed(problem, self._now())
        if outage.is_new():
            self.log.warning("The API of namespace %s gives no usable answer, trying again: %s", self.namespace, problem)
        return (None if stop is None else watch.Decision("stopped", stop)), outage.wait_s(problem)

    async def _tell(self, cluster: AsyncCluster, state: watch.Watch, log: LogReader, decision: watch.Decision | None) -> None:
        """What there is to read goes to the task's log and to the progress file, at a slower pace and at the end."""
        now = self._now()
        if self._events_at + _EVENTS_EVERY * self.poll_s <= now or decision is not None:
            self._events_at = now
            await self._tolerated("events", self._hear(cluster, state))
        started = decision is not None and decision.status == "started"  # the watch that follows reads the log from its beginning
        news = state.news()
        for line in news:
            self.log.info("%s", line)
        if news and not self.started:  # what is waited for, and that the wait is over
            phase, line = ("started", news[0]) if started else ("queued", news[-1])  # pods first, then what the cluster says of them
            newest = ProgressLine(self.trial_id, phase, 0.0, line.replace(f"pod {self.launch}-", "pod "))
            await asyncio.to_thread(progress.tell, newest)
        if not started and (self._log_at + self.log_every_s <= now or decision is not None):
            self._log_at = now
            await self._tolerated("log", self._tell_log(cluster, state, log, now))

    async def _tolerated(self, what: str, reading: Awaitable[None]) -> None:
        """No failure here is worth more than one line: the trial goes on unseen."""
        try:
            await reading
        except Exception as problem:  # noqa: BLE001 - a pod prints what it likes, and a trigger that fails ends its trial
            if what not in self._unread:
                self._unread.add(what)
                self.log.warning("The %s of %s could not be read, said once: %r", what, self.launch, problem)

    async def _hear(self, cluster: AsyncCluster, state: watch.Watch) -> None:
        for pod in state.awaited()[:_EVENTS_OF]:
            state.hear(await cluster.events(pod))

    async def _tell_log(self, cluster: AsyncCluster, state: watch.Watch, log: LogReader, now: float) -> None:
        pod = state.rank_0()
        if pod is None or not pod_state.started(pod):
            return
        lines, newest = log.read(await cluster.log(pod, log.query(now)), now)
        for line in lines:
            self.log.info("%s", line)
        if newest is not None:
            # The pod's word for whose progress this is must not choose a file of ours.
            await asyncio.to_thread(progress.tell, ProgressLine(self.trial_id, newest.phase, newest.fraction, newest.note))

    async def _is_deferred(self) -> bool:
        """Whether Airflow still waits for this trigger's task; False if that cannot be found out: an orphan costs more than a repeat."""
        if self.task_instance is None:
            return False
        try:
            return await asyncio.wait_for(asyncio.to_thread(_state_of, self.task_instance), _ASK_S) == "deferred"
        except Exception as error:  # noqa: BLE001 - what the SDK raises here depends on which part is away
            self.log.warning("Could not ask whether the task of %s still waits (%s); taking it as ended", self.launch, error)
            return False


def _state_of(task: Any) -> str | None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    found = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    state = found[task.run_id].get(task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}")
    return None if state is None else str(state)
