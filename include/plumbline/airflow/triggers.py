"""Trigger that waits for the pods of a launch."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from plumbline.declarations import TrainingJob
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress
from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import ApiAnswer, ClusterApi
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.observe.log_reader import LogReader
from plumbline.launch.cluster.observe.observation import (
    CONTAINER,
    LaunchObservation,
    Row,
    StopCause,
    encode_observation,
    has_started,
    name_of,
)
from plumbline.launch.cluster.observe.pod_watch import Decision, Outage, PodWatch, WatchLimits
from plumbline.launch.cluster.observe.replicas import REPLICAS_POLL_S, missing_pods, replica_count
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.failures import ApiRefused, RequestFailed, Unreachable
from plumbline.results.document import ReplicaCount

T = TypeVar("T")
_THREADS = ThreadPoolExecutor(64, "cluster-api")
"""The threads of all triggers: a cluster that does not answer holds one for a request's timeout, and must not hold those of other libraries."""


class LaunchApi:
    """The requests of a trigger through `ClusterApi`, each in a thread and never repeated: the trigger itself waits out an outage.

    Every method raises RequestFailed without a connection, without an answer within `request_timeout_s`, and for any HTTP status but 2xx.
    """

    def __init__(self, connection: str, namespace: str, request_timeout_s: float) -> None:
        self._connection = connection
        self._api = ClusterApi(connection, namespace, patience_s=0.0, timeout_s=request_timeout_s)

    async def pods(self, selector: str, *, cached: bool) -> tuple[list[Row], float]:
        """Pods of a label selector, and the cluster's clock. `cached`: from the API server's cache, which may be old but spares etcd."""
        query = {"labelSelector": selector, **({"resourceVersion": "0"} if cached else {})}
        answer = await self._ask(self._api.path("Pod"), query)
        return _items(answer), answer.date.timestamp() if answer.date else time.time()

    async def events(self, pod: str) -> list[Row]:
        query = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}", "limit": "200"}
        return _items(await self._ask(self._api.path("Event"), query))

    async def log(self, pod: Row, query: Mapping[str, str]) -> str:
        """A pod's log; `query` selects the part."""
        path = f"{self._api.path('Pod')}/{name_of(pod)}/log"
        return (await self._ask(path, {"container": CONTAINER, **query})).text

    async def deployment(self, name: str) -> Row:
        return (await self._ask(f"{self._api.path('Deployment')}/{name}", {})).row

    async def delete(self, owner: Mapping[str, str] | None, selector: str, secret: str | None = None) -> None:
        """Request the deletion of a launch's owner with its pods, of remaining pods, and of the Secret; does not wait."""
        row: Row | None = None if owner is None else {"kind": owner["kind"], "metadata": {"name": owner["name"]}}
        await _in_thread(partial(self._checked, partial(self._api.request_deletion, row, selector, secret)))

    async def _ask(self, path: str, query: Mapping[str, str]) -> ApiAnswer:
        return await _in_thread(partial(self._checked, partial(self._api.send_once, "GET", path, query=query)))

    def _checked(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except RequestFailed:
            raise
        except ApiRefused as refusal:
            raise RequestFailed(str(refusal), refusal.status) from refusal
        except Unreachable as error:
            raise error.__cause__ or error from None
        except Exception as error:  # noqa: BLE001 - the connection may be repaired while the trial runs
            # Only the type: a parser's message quotes the kubeconfig.
            why = f'the Airflow connection "{self._connection}" gives no access to a cluster ({type(error).__name__}); expected type kubernetes with a kubeconfig'
            raise RequestFailed(why) from None


async def _in_thread(action: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(copy_context().run, action))


def _items(answer: ApiAnswer) -> list[Row]:
    items = answer.row.get("items", ())
    if "items" not in answer.row or not isinstance(items, list | type(None)):
        raise RequestFailed(f"the answer is not a list of objects but {answer.text[:80]!r}")
    return items or []


_SETTLE_S = 3.0
"""Between a gang's first failure and the poll that ends it: kubelets report within about a second."""
_DELETE_LIMIT_S = 25.0
"""Limit of the deletion: Airflow gives `on_kill` 30 s ([triggerer] on_kill_timeout)."""
_STATE_PATIENCE_S = 15.0
"""Limit of the question whether the task is deferred: the first one after a triggerer's start imports Airflow's API."""
_deleting: set[asyncio.Task[None]] = set()
"""References to running deletions, so that they are not garbage-collected."""
EARLIEST_S = 20.0
"""Airflow 3.3 fails a task whose trigger fires before the scheduler has recorded its deferral (apache/airflow issue 72716). Seen after 5 s on a
busy scheduler, never after 20 s."""
_EVENT_POLLS = 2  # in units of `poll_s`
_EVENT_PODS = 8  # pods at a time: the rest of a gang mostly waits for the same


@dataclass(eq=False, repr=False)
class LaunchTrigger(BaseTrigger):  # type: ignore[misc]  # airflow's types are not followed
    """Fires once: {"status": "finished" | "stopped" | "deletion_asked", …the encoded observation}. Stores the start of the pods itself: an
    event would cost an execution of the task.

    Its row holds ids only: the Airflow connection is read where the trigger runs. `owner`: {"apiVersion", "kind", "name"} of the object that
    owns a gang's pods, None for a single pod. `known`: names of existing pods. `due_deletion`: the number of the next deletion that the trial
    may request, 0 for none. `requested_at`, `deadline`: seconds since the epoch. `started`: the pods started before. `campaign_id`: empty in
    rows of versions whose operators stored the start.
    `patience_s`: how long the kubelet may fail to start a container: five tries, at 0, 10, 30, 70 and 150 s, outlast a registry's restart.
    `servers`: those of its Deployment at the start, whose number is stored at every change; 0 without one. `grace_s`: see WatchLimits. `earliest_s`: see EARLIEST_S. `secret`: the Secret that is deleted with the pods.
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
    campaign_id: str = ""
    servers: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._events_at = self._log_at = 0.0
        self._clock = time.time() - time.monotonic()
        self._unread: set[str] = set()
        self._replicas: tuple[ReplicaCount, ...] | None = None

    @classmethod
    def of(cls, attempt: Attempt) -> LaunchTrigger:
        """The trigger of an attempt. A pod that replaces another has the start time limit of the first one; the trial's own limit covers all."""
        trial, owner, requested_at, replaced = attempt.trial, attempt.owner, attempt.requested_at, len(attempt.replaced.done)
        launcher, serving = cluster_declaration(trial.provider), names.serving_of(trial)
        declared = trial.workload.pod_deletions if isinstance(trial.workload, TrainingJob) else 0
        grace_s = 60.0
        return cls(
            connection=launcher.connection,
            namespace=launcher.namespace,
            selector=names.selector(trial),
            launch=names.launch_name(trial),
            trial_id=trial.trial_id,
            expected=trial.workload.nodes,
            owner=owner and {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]},
            requested_at=(attempt.replaced.since or requested_at).timestamp(),
            schedule_timeout_s=launcher.schedule_timeout,
            startup_timeout_s=launcher.startup_timeout,
            # For pods that their own `timeout` (activeDeadlineSeconds, from the node on) did not end.
            deadline=requested_at.timestamp() + launcher.schedule_timeout + launcher.timeout + grace_s,
            unreachable_timeout_s=launcher.unreachable_timeout,
            poll_s=min(launcher.poll, REPLICAS_POLL_S) if serving else launcher.poll,
            started=attempt.started_at is not None,
            known=attempt.pod_names,
            grace_s=grace_s,
            earliest_s=EARLIEST_S,
            due_deletion=replaced + 1 if replaced < declared else 0,
            secret=attempt.secret,
            campaign_id=trial.campaign_id,
            servers=serving.scaling.minimum if serving else 0,
        )

    def _monotonic_now(self) -> float:
        """Seconds since the epoch on a monotonic clock: a clock correction must not end a launch."""
        return self._clock + time.monotonic()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class's path and its arguments, without secrets."""
        arguments = {field.name: getattr(self, field.name) for field in fields(self)}
        return f"{type(self).__module__}.{type(self).__qualname__}", {**arguments, "known": list(self.known)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        limits = WatchLimits(
            self.expected, self.requested_at, self.schedule_timeout_s, self.startup_timeout_s, self.deadline, self.patience_s, self.grace_s
        )
        began = time.monotonic()
        # Asked now: the first answer takes many seconds, which `on_kill` does not have.
        self._first_question = asyncio.create_task(self._is_deferred())
        # Another triggerer may have seen the start.
        before = None if self.started else await self._tolerated("stored state", _in_thread(self._attempt))
        if before is not None and before.started_at is not None:
            self.started, self.known = True, before.pod_names
        state = PodWatch(limits, started=self.started, known=self.known)
        servers = PodWatch(replace(limits, expected=self.servers))
        outage, log = Outage(self.unreachable_timeout_s), LogReader(from_start=not self.started)
        decision: Decision | None = None
        cluster = LaunchApi(self.connection, self.namespace, self.request_timeout_s)
        while decision is None:
            try:
                decision = await self._look(cluster, state)
            except RequestFailed as problem:
                decision, pause = self._not_answered(problem, outage)
            except Exception as error:
                # A failed trigger would fail the task without deleting its pods.
                self.log.exception("The trigger of %s failed, retrying", self.launch)
                decision, pause = self._not_answered(RequestFailed(f"the trigger itself failed: {error!r}"), outage)
            else:
                if (outage_s := outage.answered(self._monotonic_now())) is not None:
                    self.log.info("The API of namespace %s answers again, after %.0f s", self.namespace, outage_s)
                if self.servers and decision is None:
                    decision = await self._tolerated("servers", self._watch_servers(cluster, servers))
                await self._report(cluster, state, log, decision)
                if decision is not None and decision.status == "started":
                    await self._tolerated("start", _in_thread(partial(self._store_start, state.seen())))
                    self.started, decision = True, None
                if decision is None and self.due_deletion and log.asked_deletion == self.due_deletion:
                    decision = Decision("deletion_asked")
                pause = min(self.poll_s, _SETTLE_S) if state.settling else self.poll_s * random.uniform(0.9, 1.1)
            if decision is None:
                await asyncio.sleep(pause)
        if decision.stop is not None:
            self.log.error("%s is stopped, %s: %s", self.launch, decision.stop.reason, decision.stop.detail)
        await asyncio.sleep(max(began + self.earliest_s - time.monotonic(), 0.0))
        yield TriggerEvent({"status": decision.status, **encode_observation(state.seen(decision.stop))})

    async def on_kill(self) -> None:
        """A person ended the task (failed, succeeded, cleared): delete the launch's objects within 25 s.

        Airflow also cancels a trigger when another triggerer takes it over; the task is still deferred then, and its pods stay.
        The deletion is its own task: Airflow (3.3.2) repeats the cancellation every second.
        """
        work = asyncio.create_task(self._delete())
        _deleting.add(work)
        work.add_done_callback(_deleting.discard)
        await asyncio.shield(work)

    async def _delete(self) -> None:
        if await self._is_deferred():
            self.log.warning("The trigger of %s moved to another triggerer; its pods stay", self.launch)
            return
        outage, until = Outage(_DELETE_LIMIT_S), self._monotonic_now() + _DELETE_LIMIT_S
        cluster = LaunchApi(self.connection, self.namespace, min(self.request_timeout_s, _DELETE_LIMIT_S / 4))
        while True:
            try:
                await cluster.delete(self.owner, self.selector, self.secret)
            except RequestFailed as problem:
                gives_up = outage.failed(problem, self._monotonic_now()) is not None
                pause = outage.wait_s(problem)
                if gives_up or self._monotonic_now() + pause > until:
                    self.log.error("Could not delete %s; upkeep deletes it when it expires; last error: %s", self.launch, problem)
                    break
                await asyncio.sleep(pause)
            else:
                self.log.info("Deleted the pods of %s: the task was ended", self.launch)
                break
        await asyncio.to_thread(progress.remove_progress, self.trial_id)

    async def _look(self, cluster: LaunchApi, state: PodWatch) -> Decision | None:
        pods, cluster_now = await cluster.pods(self.selector, cached=True)
        if state.lacks(pods):
            pods, cluster_now = await cluster.pods(self.selector, cached=False)
        return state.look(pods, self._monotonic_now(), cluster_now)

    async def _watch_servers(self, cluster: LaunchApi, servers: PodWatch) -> Decision | None:
        """Store the number of servers if it changed; the decision if the first ones will not serve."""
        deployment = await cluster.deployment(self.launch)
        count = replica_count(deployment)
        await self._tolerated("replicas", self._store_replicas(count))
        # Another triggerer may have seen them: one that died since then is the measurement's.
        servers.started = servers.started or any(each.ready >= servers.limits.expected for each in (count, *(self._replicas or ())))
        if servers.started:
            return None
        pods, cluster_now = await cluster.pods(f"{names.SERVES}={self.launch}", cached=True)
        stop = servers.cannot_serve(pods, self._monotonic_now(), cluster_now)
        for line in servers.news():
            self.log.info("server %s", line)
        if stop is None:
            return None
        await self._tolerated("events", self._read_events(cluster, servers))
        stop = servers.cannot_serve(pods, self._monotonic_now(), cluster_now)
        if stop is not None and len(pods) < servers.limits.expected and (why := missing_pods(deployment)):
            stop = replace(stop, detail=f"{stop.detail}: {why}")
        failure, detail = classify_launch(servers.seen(stop), None)
        return Decision("stopped", StopCause("no_servers", f"servers: {detail}", judged=failure))

    async def _store_replicas(self, count: ReplicaCount) -> None:
        """Store the number of servers if it changed. One that cannot be stored counts as a change at the next poll."""
        attempt = None
        if self._replicas is None or (count.ready, count.wanted) != (self._replicas[-1].ready, self._replicas[-1].wanted):
            attempt = await _in_thread(self._attempt)
        if attempt is not None:
            before = self._replicas
            if before is None:
                before = await _in_thread(partial(attempt.home.replicas, attempt.home.folder(attempt.trial)))
            await _in_thread(partial(attempt.home.put_replicas, attempt.trial, (*before, count)))
            self._replicas = (*before, count)

    def _not_answered(self, problem: RequestFailed, outage: Outage) -> tuple[Decision | None, float]:
        stop = outage.failed(problem, self._monotonic_now())
        if outage.is_new():
            self.log.warning("The API of namespace %s gives no usable answer, retrying: %s", self.namespace, problem)
        return (None if stop is None else Decision("stopped", stop)), outage.wait_s(problem)

    async def _report(self, cluster: LaunchApi, state: PodWatch, log: LogReader, decision: Decision | None) -> None:
        """Copy events and the pod's log to the task's log and the progress file, at a slower pace and at the end."""
        now = self._monotonic_now()
        if self._events_at + _EVENT_POLLS * self.poll_s <= now or decision is not None:
            self._events_at = now
            await self._tolerated("events", self._read_events(cluster, state))
        started = decision is not None and decision.status == "started"
        news = state.news()
        for line in news:
            self.log.info("%s", line)
        if news and not self.started:  # the reason of the wait, and its end
            phase, line = ("started", news[0]) if started else ("queued", news[-1])  # pods first, then what the cluster says of them
            newest = ProgressLine(self.trial_id, phase, 0.0, line.replace(f"pod {self.launch}-", "pod "))
            await asyncio.to_thread(progress.write_progress, newest)
        if not started and (self._log_at + self.log_every_s <= now or decision is not None):
            self._log_at = now
            await self._tolerated("log", self._report_log(cluster, state, log, now))

    async def _tolerated(self, what: str, work: Awaitable[T]) -> T | None:
        """A failure costs one log line: the trial continues."""
        try:
            return await work
        except Exception as problem:  # noqa: BLE001 - a pod may print anything, and a failed trigger ends its trial
            if what not in self._unread:
                self._unread.add(what)
                self.log.warning("The %s of %s could not be read or stored (logged once): %r", what, self.launch, problem)
            return None

    def _attempt(self) -> Attempt | None:
        """This launch's attempt as the store has it."""
        newest = Attempt.newest({"campaign_id": self.campaign_id, "trial_id": self.trial_id}) if self.campaign_id else None
        return newest if newest is not None and names.launch_name(newest.trial) == self.launch else None

    def _store_start(self, observation: LaunchObservation) -> None:
        """All pods run: store what the cluster forgets, such as events and the nodes' facts."""
        if (attempt := self._attempt()) is not None:
            attempt.started(observation)

    async def _read_events(self, cluster: LaunchApi, state: PodWatch) -> None:
        for pod in state.awaited()[:_EVENT_PODS]:
            state.hear(await cluster.events(pod))

    async def _report_log(self, cluster: LaunchApi, state: PodWatch, log: LogReader, now: float) -> None:
        pod = state.rank_0()
        if pod is None or not has_started(pod):
            return
        lines, newest = log.read(await cluster.log(pod, log.query(now)), now)
        for line in lines:
            self.log.info("%s", line)
        if newest is not None:
            # Our own trial id: the pod must not choose a file.
            await asyncio.to_thread(progress.write_progress, ProgressLine(self.trial_id, newest.phase, newest.fraction, newest.note))

    async def _is_deferred(self) -> bool:
        """Whether the task is still deferred; False if unknown, as an orphan costs more than a repeat."""
        if self.task_instance is None:
            return False
        try:
            return await asyncio.wait_for(asyncio.to_thread(_state_of, self.task_instance), _STATE_PATIENCE_S) == "deferred"
        except Exception as error:  # noqa: BLE001 - the SDK's error depends on the part that fails
            self.log.warning("Could not read the task state of %s (%s); assuming it has ended", self.launch, error)
            return False


def _state_of(task: Any) -> str | None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    state = states[task.run_id].get(task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}")
    return None if state is None else str(state)
