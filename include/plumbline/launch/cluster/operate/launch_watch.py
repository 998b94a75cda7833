"""The watch of a launch's pods between its submission and its end, one poll at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress, stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.observe.launch_api import LaunchApi, in_thread
from plumbline.launch.cluster.observe.log_reader import LogReader
from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, encode_observation, has_started
from plumbline.launch.cluster.observe.pod_watch import PodWatch, WatchDecision, WatchLimits
from plumbline.launch.cluster.observe.replicas import missing_pods, replica_count
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.ticket import ClusterTicket
from plumbline.launch.failures import NoConnection, RequestFailed
from plumbline.launch.remote import Poll, RequestFailures, Stop
from plumbline.results.document import ReplicaCount

T = TypeVar("T")
_SETTLE_S = 3.0
"""Between a gang's first failure and the poll that ends it: kubelets report within about a second."""
_EVENT_POLLS = 2  # in units of `poll_s`
_NO_CONNECTION = (
    "{problem}: the triggerer lacks it, although the worker has it; define {name} where the triggerer reads connections too (Airflow's database, the "
    "secrets backend, or its own environment); `plumbline doctor` shows what the triggerer lacks"
)
_EVENT_PODS = 8  # pods at a time: the rest of a gang mostly waits for the same


class LaunchWatch:
    """The polls of one launch, and what is kept between them. `log`: for people, with the methods of a logger.

    Stores the start of the pods itself: to wake the task would cost an execution of it.
    """

    def __init__(self, ticket: ClusterTicket, log: Any) -> None:
        self.ticket, self.log = ticket, log
        self.started = ticket.started
        self._events_at = self._log_at = 0.0
        self._clock = time.time() - time.monotonic()
        self._unread: set[str] = set()
        self._replicas: tuple[ReplicaCount, ...] | None = None
        # Whether a triggerer has read this launch: its connection was there, so that one that is gone may come back.
        self._was_read = ticket.started

    async def polls(self) -> AsyncGenerator[Poll, None]:
        """A poll each, the last one with its end: "finished", "stopped" or "deletion_asked"."""
        ticket = self.ticket
        limits = WatchLimits(
            ticket.expected,
            ticket.requested_at,
            ticket.schedule_timeout_s,
            ticket.startup_timeout_s,
            ticket.deadline,
            ticket.patience_s,
            ticket.grace_s,
        )
        # Another watch may have seen the start.
        before = None if self.started else await self._tolerated("stored state", in_thread(self._attempt))
        known = ticket.known
        if before is not None and before.started_at is not None:
            self.started = self._was_read = True
            known = before.pod_names
        state = PodWatch(limits, started=self.started, known=known)
        servers = PodWatch(replace(limits, expected=ticket.servers))
        outage, log = RequestFailures(ticket.unreachable_timeout_s, "the cluster's API"), LogReader(from_start=not self.started)
        decision: WatchDecision | None = None
        cluster = LaunchApi(ticket.connection, ticket.namespace, ticket.request_timeout_s)
        while decision is None:
            try:
                decision = await self._look(cluster, state)
            except RequestFailed as problem:
                decision, pause = self._not_answered(problem, outage)
            except Exception as error:
                # A watch that fails would fail the task without deleting its pods.
                self.log.exception("The trigger of %s failed, retrying", ticket.launch)
                decision, pause = self._not_answered(RequestFailed(f"the trigger itself failed: {error!r}"), outage)
            else:
                self._was_read = True
                if (outage_s := outage.answered(self._monotonic_now())) is not None:
                    self.log.info("The API of namespace %s answers again, after %.0f s", ticket.namespace, outage_s)
                if ticket.servers and decision is None:
                    decision = await self._tolerated("servers", self._watch_servers(cluster, servers))
                await self._report(cluster, state, log, decision)
                if decision is not None and decision.status == "started":
                    await self._tolerated("start", in_thread(partial(self._store_start, state.seen())))
                    self.started, decision = True, None
                if decision is None and ticket.due_deletion and log.asked_deletion == ticket.due_deletion:
                    decision = WatchDecision("deletion_asked")
                pause = min(ticket.poll_s, _SETTLE_S) if state.settling else ticket.poll_s * random.uniform(0.9, 1.1)
            if decision is None:
                yield Poll(pause_s=pause)
        if decision.stop is not None:
            self.log.error("%s is stopped, %s: %s", ticket.launch, decision.stop.reason, decision.stop.detail)
        yield Poll(decision.status, encode_observation(state.seen(decision.stop)))

    def _monotonic_now(self) -> float:
        """Seconds since the epoch on a monotonic clock: a clock correction must not end a launch."""
        return self._clock + time.monotonic()

    async def _look(self, cluster: LaunchApi, state: PodWatch) -> WatchDecision | None:
        pods, cluster_now = await cluster.pods(self.ticket.selector, cached=True)
        if state.lacks(pods):
            pods, cluster_now = await cluster.pods(self.ticket.selector, cached=False)
        return state.look(pods, self._monotonic_now(), cluster_now)

    async def _watch_servers(self, cluster: LaunchApi, servers: PodWatch) -> WatchDecision | None:
        """Store the number of servers if it changed; the decision if the first ones will not serve."""
        deployment = await cluster.deployment(self.ticket.launch)
        count = replica_count(deployment)
        await self._tolerated("replicas", self._store_replicas(count))
        # Another triggerer may have seen them: one that died since then is the measurement's.
        servers.started = servers.started or any(each.ready >= servers.limits.expected for each in (count, *(self._replicas or ())))
        if servers.started:
            return None
        pods, cluster_now = await cluster.pods(f"{names.SERVES}={self.ticket.launch}", cached=True)
        stop = servers.cannot_serve(pods, self._monotonic_now(), cluster_now)
        for line in servers.news():
            self.log.info("server %s", line)
        if stop is None:
            return None
        await self._tolerated("events", self._read_events(cluster, servers))
        stop = servers.cannot_serve(pods, self._monotonic_now(), cluster_now)
        if stop is not None and len(pods) < servers.limits.expected and (why := missing_pods(deployment)):
            stop = replace(stop, detail=f"{stop.detail}: {why}")
        failure, detail = classify_launch(replace(servers.seen(stop), providers_nodes=self.ticket.providers_nodes), None)
        return WatchDecision("stopped", StopCause("no_servers", f"servers: {detail}", judged=failure))

    async def _store_replicas(self, count: ReplicaCount) -> None:
        """Store the number of servers if it changed. One that cannot be stored counts as a change at the next poll."""
        attempt = None
        if self._replicas is None or (count.ready, count.wanted) != (self._replicas[-1].ready, self._replicas[-1].wanted):
            attempt = await in_thread(self._attempt)
        if attempt is not None:
            before = self._replicas
            if before is None:
                before = await in_thread(partial(attempt.home.replicas, attempt.home.folder(attempt.trial)))
            await in_thread(partial(attempt.home.put_replicas, attempt.trial, (*before, count)))
            self._replicas = (*before, count)

    def _not_answered(self, problem: RequestFailed, outage: RequestFailures) -> tuple[WatchDecision | None, float]:
        stop = outage.failed(problem, self._monotonic_now())
        if isinstance(problem, NoConnection) and not self._was_read:
            # No wait defines it, and the pods cost money until their deletion.
            stop = Stop("no_connection", _NO_CONNECTION.format(problem=problem, name=self.ticket.connection))
        if outage.is_new():
            self.log.warning("The API of namespace %s gives no usable answer, retrying: %s", self.ticket.namespace, problem)
        return (None if stop is None else WatchDecision("stopped", StopCause.of(stop))), outage.wait_s(problem)

    async def _report(self, cluster: LaunchApi, state: PodWatch, log: LogReader, decision: WatchDecision | None) -> None:
        """Copy events and the pod's log to the task's log and the progress file, at a slower pace and at the end."""
        now = self._monotonic_now()
        if self._events_at + _EVENT_POLLS * self.ticket.poll_s <= now or decision is not None:
            self._events_at = now
            await self._tolerated("events", self._read_events(cluster, state))
        started = decision is not None and decision.status == "started"
        news = state.news()
        for line in news:
            self.log.info("%s", line)
        if news and not self.started:  # the reason of the wait, and its end
            phase, line = ("started", news[0]) if started else ("queued", news[-1])  # pods first, then what the cluster says of them
            newest = ProgressLine(self.ticket.trial_id, phase, 0.0, line.replace(f"pod {self.ticket.launch}-", "pod "))
            await asyncio.to_thread(progress.write_progress, newest)
        if not started and (self._log_at + self.ticket.log_every_s <= now or decision is not None):
            self._log_at = now
            await self._tolerated("log", self._report_log(cluster, state, log, now))

    async def _tolerated(self, what: str, work: Awaitable[T]) -> T | None:
        """A failure costs one log line: the trial continues."""
        try:
            return await work
        except Exception as problem:  # noqa: BLE001 - a pod may print anything, and a failed trigger ends its trial
            if what not in self._unread:
                self._unread.add(what)
                self.log.warning("The %s of %s could not be read or stored (logged once): %r", what, self.ticket.launch, problem)
            return None

    def _attempt(self) -> Attempt | None:
        """This launch's attempt as the store has it."""
        ticket = self.ticket
        newest = stores.newest_attempt({"campaign_id": ticket.campaign_id, "trial_id": ticket.trial_id}) if ticket.campaign_id else None
        attempt = None if newest is None else Attempt.at(*newest)
        return attempt if attempt is not None and attempt.name == ticket.launch else None

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
            await asyncio.to_thread(progress.write_progress, ProgressLine(self.ticket.trial_id, newest.phase, newest.fraction, newest.note))
