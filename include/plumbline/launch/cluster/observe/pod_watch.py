"""Decide from polls whether the pods of a launch started, ended or must be stopped. No clock, no network.

A pod is a gang of one. Times are seconds since the epoch. `now` is Airflow's clock; what began by the cluster's clock (a pod was created, got
its node) is measured by the cluster's clock, so that neither clocks which differ nor a step of one shorten or lengthen a timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.launch.cluster.observe.observation import (
    CONFIG_FAILURES,
    CONTAINER,
    PERMANENT_FAILURES,
    LaunchObservation,
    Row,
    StartFailure,
    StopCause,
    crash_loop,
    describe_pod,
    event_time,
    format_time,
    has_ended,
    has_started,
    has_succeeded,
    is_scheduled,
    name_of,
    parse_time,
    pod_phase,
    rank_of,
    scheduled_at,
    start_failure,
    trim_event,
    trim_pod,
    unscheduled_reason,
)
from plumbline.launch.cluster.observe.start_failures import judge_sandbox

_MAX_EVENTS = 40  # the newest ones: Airflow prints what a trigger found into the task's log; the API still has the others
_REPORTED = frozenset({"Pulling", "Pulled", "TriggeredScaleUp", "Preempted", "Evicted", "TaintManagerEviction"})  # besides every warning


@dataclass(frozen=True)
class WatchLimits:
    """Time limits of a launch: `requested_at` and `deadline` are points in time, the others are seconds.

    `patience_s`: how long the kubelet may be unable to start a container. `grace_s`: how long a pod that is being deleted may take, and the
    other ranks after rank 0 is done.
    """

    expected: int
    requested_at: float
    schedule_timeout_s: float
    startup_timeout_s: float
    deadline: float
    patience_s: float
    grace_s: float


@dataclass(frozen=True)
class WatchDecision:
    """All pods run; the launch is over; it must be stopped, for the cause `stop`; or the pod requests its deletion."""

    status: Literal["started", "finished", "stopped", "deletion_asked"]
    stop: StopCause | None = None


class PodWatch:
    """The state between polls. `known`: names of existing pods. `started`: an earlier watch reported that all of them run."""

    def __init__(self, limits: WatchLimits, *, started: bool = False, known: Iterable[str] = ()) -> None:
        self.limits = limits
        self.started = started
        self.settling = False
        """A gang's first pod failed: one more poll, soon, shows which others failed with it, then the launch is over."""
        self._known = set(known)
        self._pods: dict[str, Row] = {}
        self._gone: frozenset[str] = frozenset()
        self._events: dict[str, Row] = {}
        self._heard: set[str] = set()
        self._first_look = True
        self._took_over_at = ""
        self._trouble_since: dict[str, float] = {}
        self._rank_0_done: float | None = None
        self._described: dict[str, str] = {}
        self._news: list[str] = []

    def lacks(self, pods: Sequence[Row]) -> bool:
        """Whether an expected pod is missing from `pods`; a cached list must then be read again without the cache."""
        names = {name_of(pod) for pod in pods}
        return bool(self._known - names) or (self.started and len(names) < self.limits.expected)

    def look(self, pods: Sequence[Row], now: float, cluster_now: float) -> WatchDecision | None:
        """The decision after another poll of the launch's pods; None while nothing changes for the task."""
        if self._first_look and self.started:
            self._took_over_at = format_time(cluster_now)  # the watch before reported earlier events
        self._first_look = False
        present = {name_of(pod): trim_pod(pod) for pod in pods}
        self._known |= set(present)
        self._pods.update(present)
        self._gone = self._missing_pods(set(present)) | self._lost_pods(present.values(), cluster_now)
        self._describe()
        rows = list(self._pods.values())
        if self._all_over(rows) or self._rank_0_is_done(rows, now):
            return WatchDecision("finished")
        if self._broken(rows):
            if self.settling:
                return WatchDecision("finished")
            self.settling = True
            return None
        if self._running_s(rows, now, cluster_now) >= self.limits.deadline - self.limits.requested_at:
            return WatchDecision(
                "stopped",
                StopCause(
                    "deadline",
                    f"ended at the deadline of {self.limits.deadline - self.limits.requested_at:.0f} s: {self._describe_pods(rows)}",
                ),
            )
        if self.started:
            return None
        if (stop := self._cannot_start(rows, now, cluster_now)) is not None:
            return WatchDecision("stopped", stop)
        if len(rows) >= self.limits.expected and all(map(has_started, rows)):
            self.started = True
            return WatchDecision("started")
        return None

    def cannot_serve(self, pods: Sequence[Row], now: float, cluster_now: float) -> StopCause | None:
        """Why a Deployment's first pods will not serve; None while they still may. Pods that ended or are deleted are replaced by the cluster."""
        self._pods = {
            name_of(pod): trim_pod(pod) for pod in pods if pod_phase(pod) != "Failed" and "deletionTimestamp" not in pod["metadata"]
        }
        self._known = set(self._pods)
        self._describe()
        crash = next((ended for pod in self._pods.values() if (ended := crash_loop(pod)) is not None), None)
        if crash is not None:
            return StopCause("server_crashes", f"pod {name_of(crash)} was restarted again and again and {describe_pod(crash)}")
        return self._cannot_start(list(self._pods.values()), now, cluster_now)

    def hear(self, events: Iterable[Row]) -> None:
        """Take in events about the launch's pods. Each event for people is news once."""
        for event in events:
            row = trim_event(event)
            line = f"pod {row['involvedObject'].get('name')}: {row.get('reason')}: {row.get('message', '')}"
            if line not in self._heard and (row.get("type") == "Warning" or row.get("reason") in _REPORTED):
                self._heard.add(line)
                if event_time(row) >= self._took_over_at:
                    self._news.append(line)
            self._events[row["metadata"].get("uid") or row["metadata"].get("name", "")] = row
        for key in sorted(self._events, key=lambda key: event_time(self._events[key]))[:-_MAX_EVENTS]:
            del self._events[key]

    def seen(self, stop: StopCause | None = None) -> LaunchObservation:
        """Everything observed. `stop`: why the watch was stopped."""
        pods = sorted(self._pods.values(), key=lambda pod: (rank_of(pod), name_of(pod)))
        return LaunchObservation(
            self.limits.expected, tuple(pods), self._gone, tuple(sorted(self._events.values(), key=event_time)), stop=stop
        )

    def news(self) -> list[str]:
        """Lines for the task's log since the last call."""
        lines, self._news = self._news, []
        return lines

    def awaited(self) -> list[str]:
        """Names of the pods whose events to read: those that have not started, else those that have not ended."""
        pending = [name for name, pod in self._pods.items() if not has_started(pod)]
        return pending or [name for name, pod in self._pods.items() if not has_ended(pod)]

    def rank_0(self) -> Row | None:
        """The newest copy of the pod whose log has the progress; None before it exists."""
        return next((pod for pod in self._pods.values() if rank_of(pod) == 0), None)

    def _missing_pods(self, present: set[str]) -> frozenset[str]:
        """Pods removed before they ended; removal after the end is only garbage collection."""
        return frozenset(name for name in self._known - present if name not in self._pods or not has_ended(self._pods[name]))

    def _lost_pods(self, pods: Iterable[Row], cluster_now: float) -> frozenset[str]:
        """Pods whose deletion takes too long: their node no longer answers."""
        # deletionTimestamp is when the deletion's own grace period ends.
        due = {name_of(pod): parse_time(pod["metadata"].get("deletionTimestamp")) for pod in pods}
        return frozenset(name for name, at in due.items() if at is not None and cluster_now >= at + self.limits.grace_s)

    def _running_s(self, rows: list[Row], now: float, cluster_now: float) -> float:
        """Seconds since the request, by the cluster's clock once a pod exists: a step of Airflow's clock must not count."""
        created = [at for row in rows if (at := parse_time(row["metadata"].get("creationTimestamp"))) is not None]
        return cluster_now - min(created) if created else now - self.limits.requested_at

    def _all_over(self, rows: list[Row]) -> bool:
        ended = {name_of(row) for row in rows if has_ended(row)} | self._gone
        return len(ended) >= self.limits.expected and all(name_of(row) in ended for row in rows)

    def _broken(self, rows: list[Row]) -> bool:
        """Whether a pod of a gang failed or is gone: the others cannot continue."""
        missing = bool(self._gone) or (self.started and len(rows) < self.limits.expected)
        return missing or any(has_ended(row) and not has_succeeded(row) for row in rows)

    def _rank_0_is_done(self, rows: list[Row], now: float) -> bool:
        """Whether rank 0 has been done for the grace period: the other ranks no longer measure, and a hung one would cost until the deadline."""
        if not any(rank_of(row) == 0 and has_succeeded(row) for row in rows):
            return False
        self._rank_0_done = now if self._rank_0_done is None else self._rank_0_done
        return now >= self._rank_0_done + self.limits.grace_s

    def _cannot_start(self, rows: list[Row], now: float, cluster_now: float) -> StopCause | None:
        for row in rows:
            wrong, name = start_failure(row), name_of(row)
            if wrong is None:
                self._trouble_since.pop(name, None)
                continue
            since = self._trouble_since.setdefault(name, now)
            if wrong.reason in PERMANENT_FAILURES or now >= since + self.limits.patience_s:
                return self._stop_cause(row, wrong)
        waiting = [row for row in rows if not is_scheduled(row) and not has_ended(row)]
        if waiting or len(rows) < self.limits.expected:
            if self._running_s(rows, now, cluster_now) >= self.limits.schedule_timeout_s:
                return StopCause("schedule_timeout", self._no_node(rows, waiting))
            return None
        for row in rows:
            if not has_started(row) and (unmade := self._never_made(row)) is not None:
                return StopCause("config_error", f"pod {name_of(row)} on {row['spec'].get('nodeName')} cannot start: {unmade}")
        placed = max((at for row in rows if (at := scheduled_at(row)) is not None), default=cluster_now)
        late = [row for row in rows if not has_started(row)]
        if late and cluster_now >= placed + self.limits.startup_timeout_s:
            wrong = start_failure(late[0])
            if wrong is not None:
                return self._stop_cause(late[0], wrong)
            detail = f"pod {name_of(late[0])} had a node for {self.limits.startup_timeout_s:.0f} s (startup_timeout), but its container did not start"
            return StopCause("startup_timeout", f"{detail}; {self._last_message(late[0])}")
        return None

    def _never_made(self, pod: Row) -> str | None:
        """The event by which the pod's sandbox can never be made as it is declared; None while it may."""
        about = [event for event in self._events.values() if event["involvedObject"].get("name") == name_of(pod)]
        said = (f"{event.get('reason')}: {event.get('message', '')}" for event in about if event.get("type") == "Warning")
        return next((text for text in said if (judged := judge_sandbox(text)) is not None and judged[0] == "bad_declaration"), None)

    def _no_node(self, rows: list[Row], waiting: list[Row]) -> str:
        expected, limit = self.limits.expected, f"{self.limits.schedule_timeout_s:.0f} s (schedule_timeout)"
        if not waiting:
            return f"{len(rows)} of {expected} pods existed {limit} after the request"
        name = name_of(waiting[0])
        return f"{len(waiting)} of {expected} pods had no node {limit} after the request; pod {name}: {self._last_message(waiting[0])}"

    def _last_message(self, pod: Row) -> str:
        """The newest warning about a pod, else what the pod itself reports."""
        name = name_of(pod)
        warnings = [e for e in self._events.values() if e.get("type") == "Warning" and e["involvedObject"].get("name") == name]
        if warnings:
            newest = max(warnings, key=event_time)
            return f"{newest.get('reason')}: {newest.get('message', '')}"
        return unscheduled_reason(pod) or f"its state: {describe_pod(pod)}"

    def _stop_cause(self, pod: Row, wrong: StartFailure) -> StopCause:
        container, reason, message = wrong
        name = name_of(pod)
        kind: Literal["config_error", "image_error"] = "config_error" if reason in CONFIG_FAILURES else "image_error"
        # A pod that backs off no longer reports the cause; the event of its last try does ("Error: …" only repeats the reason).
        about = [e for e in self._events.values() if e.get("reason") == "Failed" and e["involvedObject"].get("name") == name]
        causes = [str(e.get("message", "")) for e in sorted(about, key=event_time) if not str(e.get("message", "")).startswith("Error:")]
        cause = f"; {causes[-1]}" if causes and message not in causes[-1] else ""
        what = "" if container == CONTAINER else f" its container {container}"
        return StopCause(
            kind, f"pod {name} on {pod['spec'].get('nodeName')} cannot start{what}: {reason}: {message or 'no message'}{cause}"
        )

    def _describe_pods(self, rows: list[Row]) -> str:
        return "; ".join(f"pod {name_of(row)} {describe_pod(row)}" for row in rows if not has_ended(row)) or "no pod exists"

    def _describe(self) -> None:
        for name in sorted(self._known):
            pod = self._pods.get(name)
            text = "is gone: deleted by someone else" if name in self._gone else None if pod is None else describe_pod(pod)
            if text is not None and self._described.get(name) != text:
                self._described[name] = text
                self._news.append(f"pod {name} {text}")
