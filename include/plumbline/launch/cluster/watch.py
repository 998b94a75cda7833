"""Pure: decides from looks at a launch's pods whether they started, ended, or must be stopped. No clock, no network.

A pod is a gang of one. Times are seconds since the epoch. `now` is Airflow's clock; what began by the cluster's clock (a pod was created, got
its node) is measured by the cluster's clock, so that neither clocks which differ nor a step of one shorten or lengthen a timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.launch.cluster import pod_state
from plumbline.launch.cluster.base import Row, Seen, Stop
from plumbline.launch.cluster.payload import decode, encode, event_time, trimmed_event, trimmed_pod

__all__ = ["Decision", "Limits", "Watch", "decode", "encode"]

_EVENTS_KEPT = 40  # the newest ones: Airflow prints what a trigger found into the task's log; the API still has the others
_TOLD = frozenset({"Pulling", "Pulled", "TriggeredScaleUp", "Preempted", "Evicted", "TaintManagerEviction"})  # besides every warning


@dataclass(frozen=True)
class Limits:
    """How long a launch may take for what; `requested_at` and `deadline` are points in time, the others are seconds.

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
class Decision:
    """What the task must know: all pods run; the launch is over; `stop` says why it must be ended; the pod asks to be deleted."""

    status: Literal["started", "finished", "stopped", "deletion_asked"]
    stop: Stop | None = None


class Watch:
    """The state between looks. `known`: names of pods that exist already; `started`: that all of them run was told before."""

    def __init__(self, limits: Limits, *, started: bool = False, known: Iterable[str] = ()) -> None:
        self.limits = limits
        self.started = started
        self.settling = False
        """A gang's first pod failed: the next look, soon, shows what befell the others in the same instant. Then it is over."""
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
        """A pod that should be among `pods` is not: if they came from a cache, ask again without it before believing that."""
        names = {pod_state.name_of(pod) for pod in pods}
        return bool(self._known - names) or (self.started and len(names) < self.limits.expected)

    def look(self, pods: Sequence[Row], now: float, cluster_now: float) -> Decision | None:
        """Take in the launch's pods as they are; None if there is nothing to tell the task yet."""
        if self._first_look and self.started:
            self._took_over_at = pod_state.text_of(cluster_now)  # what happened before was told by the watch before
        self._first_look = False
        present = {pod_state.name_of(pod): trimmed_pod(pod) for pod in pods}
        self._known |= set(present)
        self._pods.update(present)
        self._gone = self._missed(set(present)) | self._lost(present.values(), cluster_now)
        self._describe()
        rows = list(self._pods.values())
        if self._all_over(rows) or self._rank_0_is_done(rows, now):
            return Decision("finished")
        if self._broken(rows):
            if self.settling:
                return Decision("finished")
            self.settling = True
            return None
        if self._lasted(rows, now, cluster_now) >= self.limits.deadline - self.limits.requested_at:
            return Decision("stopped", Stop("deadline", f"still {self._where(rows)} when its time was over, and was ended"))
        if self.started:
            return None
        if (stop := self._cannot_start(rows, now, cluster_now)) is not None:
            return Decision("stopped", stop)
        if len(rows) >= self.limits.expected and all(map(pod_state.started, rows)):
            self.started = True
            return Decision("started")
        return None

    def hear(self, events: Iterable[Row]) -> None:
        """Take in events about the launch's pods. Each one that a person should read is news once."""
        for event in events:
            row = trimmed_event(event)
            line = f"pod {row['involvedObject'].get('name')}: {row.get('reason')}: {row.get('message', '')}"
            if line not in self._heard and (row.get("type") == "Warning" or row.get("reason") in _TOLD):
                self._heard.add(line)
                if event_time(row) >= self._took_over_at:
                    self._news.append(line)
            self._events[row["metadata"].get("uid") or row["metadata"].get("name", "")] = row
        for key in sorted(self._events, key=lambda key: event_time(self._events[key]))[:-_EVENTS_KEPT]:
            del self._events[key]

    def seen(self, stop: Stop | None = None) -> Seen:
        """Everything that this watch knows, and why it ended if it was stopped."""
        pods = sorted(self._pods.values(), key=lambda pod: (pod_state.rank_of(pod), pod_state.name_of(pod)))
        return Seen(self.limits.expected, tuple(pods), self._gone, tuple(sorted(self._events.values(), key=event_time)), stop=stop)

    def news(self) -> list[str]:
        """Lines for the task's log since the last call."""
        lines, self._news = self._news, []
        return lines

    def awaited(self) -> list[str]:
        """Names of pods whose events may say why there is nothing to tell yet: those that did not start; of running ones, all."""
        pending = [name for name, pod in self._pods.items() if not pod_state.started(pod)]
        return pending or [name for name, pod in self._pods.items() if not pod_state.over(pod)]

    def rank_0(self) -> Row | None:
        """The newest copy of the pod whose log tells the progress; None before it is there."""
        return next((pod for pod in self._pods.values() if pod_state.rank_of(pod) == 0), None)

    def _missed(self, present: set[str]) -> frozenset[str]:
        """Pods that somebody removed before they ended; one that had ended is only tidied away."""
        return frozenset(name for name in self._known - present if name not in self._pods or not pod_state.over(self._pods[name]))

    def _lost(self, pods: Iterable[Row], cluster_now: float) -> frozenset[str]:
        """Pods that are being deleted for longer than that can take: their node does not answer any more."""
        # deletionTimestamp is when the deletion's own grace period ends.
        due = {pod_state.name_of(pod): pod_state.time_of(pod["metadata"].get("deletionTimestamp")) for pod in pods}
        return frozenset(name for name, at in due.items() if at is not None and cluster_now >= at + self.limits.grace_s)

    def _lasted(self, rows: list[Row], now: float, cluster_now: float) -> float:
        """Seconds since the request: by the cluster's clock from its first pod on, which no step of Airflow's clock changes."""
        created = [at for row in rows if (at := pod_state.time_of(row["metadata"].get("creationTimestamp"))) is not None]
        return cluster_now - min(created) if created else now - self.limits.requested_at

    def _all_over(self, rows: list[Row]) -> bool:
        ended = {pod_state.name_of(row) for row in rows if pod_state.over(row)} | self._gone
        return len(ended) >= self.limits.expected and all(pod_state.name_of(row) in ended for row in rows)

    def _broken(self, rows: list[Row]) -> bool:
        """One pod of a gang failed or is gone: the others wait for it in vain."""
        missing = bool(self._gone) or (self.started and len(rows) < self.limits.expected)
        return missing or any(pod_state.over(row) and not pod_state.succeeded(row) for row in rows)

    def _rank_0_is_done(self, rows: list[Row], now: float) -> bool:
        """Rank 0 wrote the document a while ago: what other ranks still do measures nothing, and a hung one costs until the deadline."""
        if not any(pod_state.rank_of(row) == 0 and pod_state.succeeded(row) for row in rows):
            return False
        self._rank_0_done = now if self._rank_0_done is None else self._rank_0_done
        return now >= self._rank_0_done + self.limits.grace_s

    def _cannot_start(self, rows: list[Row], now: float, cluster_now: float) -> Stop | None:
        for row in rows:
            wrong, name = pod_state.trouble(row), pod_state.name_of(row)
            if wrong is None:
                self._trouble_since.pop(name, None)
                continue
            since = self._trouble_since.setdefault(name, now)
            if wrong[0] in pod_state.HOPELESS or now >= since + self.limits.patience_s:
                return self._trouble(row, wrong)
        waiting = [row for row in rows if not pod_state.on_node(row) and not pod_state.over(row)]
        if waiting or len(rows) < self.limits.expected:
            if self._lasted(rows, now, cluster_now) >= self.limits.schedule_timeout_s:
                return Stop("schedule_timeout", self._no_node(rows, waiting))
            return None
        placed = max((at for row in rows if (at := pod_state.scheduled_at(row)) is not None), default=cluster_now)
        late = [row for row in rows if not pod_state.started(row)]
        if late and cluster_now >= placed + self.limits.startup_timeout_s:
            wrong = pod_state.trouble(late[0])
            if wrong is not None:
                return self._trouble(late[0], wrong)
            detail = f"pod {pod_state.name_of(late[0])} had a node for {self.limits.startup_timeout_s:.0f} s (startup_timeout) and its container did not start"
            return Stop("startup_timeout", f"{detail}; {self._last_words(late[0])}")
        return None

    def _no_node(self, rows: list[Row], waiting: list[Row]) -> str:
        expected, limit = self.limits.expected, f"{self.limits.schedule_timeout_s:.0f} s (schedule_timeout)"
        if not waiting:
            return f"{len(rows)} of {expected} pods were there {limit} after the request; nobody created the others"
        name = pod_state.name_of(waiting[0])
        return f"{len(waiting)} of {expected} pods had no node {limit} after the request; pod {name}: {self._last_words(waiting[0])}"

    def _last_words(self, pod: Row) -> str:
        """The newest complaint about a pod: an event's, else the pod's own."""
        name = pod_state.name_of(pod)
        warnings = [e for e in self._events.values() if e.get("type") == "Warning" and e["involvedObject"].get("name") == name]
        if warnings:
            newest = max(warnings, key=event_time)
            return f"{newest.get('reason')}: {newest.get('message', '')}"
        return pod_state.why_no_node(pod) or f"it {pod_state.describe(pod)}"

    def _trouble(self, pod: Row, wrong: tuple[str, str]) -> Stop:
        (reason, message), name = wrong, pod_state.name_of(pod)
        kind: Literal["config_error", "image_error"] = "config_error" if reason in pod_state.CONFIG_TROUBLE else "image_error"
        # A pod that backs off does not say why any more; the event of the try before does ("Error: …" ones only repeat the reason).
        about = [e for e in self._events.values() if e.get("reason") == "Failed" and e["involvedObject"].get("name") == name]
        causes = [str(e.get("message", "")) for e in sorted(about, key=event_time) if not str(e.get("message", "")).startswith("Error:")]
        cause = f"; {causes[-1]}" if causes and message not in causes[-1] else ""
        return Stop(kind, f"pod {name} on {pod['spec'].get('nodeName')} cannot start: {reason}: {message or 'no message'}{cause}")

    def _where(self, rows: list[Row]) -> str:
        return (
            "; ".join(f"pod {pod_state.name_of(row)} {pod_state.describe(row)}" for row in rows if not pod_state.over(row)) or "not there"
        )

    def _describe(self) -> None:
        for name in sorted(self._known):
            pod = self._pods.get(name)
            text = "is gone: somebody deleted it" if name in self._gone else None if pod is None else pod_state.describe(pod)
            if text is not None and self._described.get(name) != text:
                self._described[name] = text
                self._news.append(f"pod {name} {text}")
