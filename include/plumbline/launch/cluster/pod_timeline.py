"""Pure: when a pod reached which point of its life, by the cluster's clocks.

Every moment is a whole second, also where an event carries microseconds: most of the API's times are cut to seconds, and a difference of
one that is cut and one that is not would be too long or even negative.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.payload import event_time
from plumbline.launch.cluster.pod_state import container_of, harness, name_of
from plumbline.results import Event

POINTS = ("requested", "admitted", "scheduled", "image_pulling", "image_pulled", "started", "ready", "finished", "deleted")
"""`deleted` is when the deletion was asked for; the others are what their names say. A point that was not reached or seen is absent."""
WAS_READY = "plumbline/was-ready"
"""Condition that `remembered` adds to a pod: a Ready condition forgets when it held as soon as the containers end."""

_PULLED = re.compile(r"pulled image .*? in (?P<time>[0-9.a-zµ]+)")
_SIZE = re.compile(r"Image size: (?P<bytes>\d+) bytes")
_PART = re.compile(r"([0-9.]+)(h|ms|m|us|µs|ns|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Pull:
    """How the harness's image came to the node, as the kubelet says; None where it does not. `seconds` is without waiting for other pulls."""

    cached: bool | None = None
    seconds: float | None = None
    size: int | None = None


def moment(text: str | None) -> datetime | None:
    """A time of the API in whole seconds; None if there is none, also where the API writes none as the year 1970."""
    if not text:
        return None
    at = datetime.fromisoformat(text.replace("Z", "+00:00")).replace(microsecond=0)
    return at if at.year > 1970 else None


def about(pod: Row, events: Iterable[Row]) -> tuple[Row, ...]:
    """The events about this very pod (one of the same name may have lived before it), oldest first."""
    name, uid = name_of(pod), pod["metadata"].get("uid")
    found = (event for event in events if _is_of(event.get("involvedObject") or {}, name, uid))
    return tuple(sorted(found, key=lambda event: (first_time(event), event_time(event))))


def first_time(event: Row) -> str:
    """When an event was first seen, as the API writes it; empty if it says nothing."""
    return str(event.get("firstTimestamp") or event.get("eventTime") or (event.get("metadata") or {}).get("creationTimestamp") or "")


def timeline(pod: Row, events: Sequence[Row]) -> tuple[Event, ...]:
    """The points that the pod reached, in the order of `POINTS`; `events` are those about it."""
    reached = _moments(pod, events)
    return tuple(Event(name=name, utc=at, clock="cluster") for name in POINTS if (at := reached[name]) is not None)


def pull(pod: Row, events: Iterable[Row]) -> Pull:
    """How the harness's image came to the node; the last thing said counts."""
    found = Pull()
    for event in _of_harness(pod, events, "Pulled"):
        message = str(event.get("message") or "")
        took, size = _PULLED.search(message), _SIZE.search(message)
        if took is not None:
            found = Pull(False, _duration(took["time"]), int(size["bytes"]) if size else None)
        elif "already present" in message:
            found = Pull(True)
    return found


def remembered(before: Row, now: Row) -> Row:
    """The newer copy of a pod, with the time at which the older one was ready if the newer one has forgotten it."""
    at = _ready(before)
    if at is None or _ready(now) is not None:
        return now
    status = dict(now.get("status") or {})
    held = {"type": WAS_READY, "status": "True", "lastTransitionTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {**now, "status": {**status, "conditions": [*(status.get("conditions") or ()), held]}}


def ended_at(pod: Row) -> datetime | None:
    """When the harness's container ended; None if it did not, or if nobody saw it end."""
    return moment(((harness(pod).get("state") or {}).get("terminated") or {}).get("finishedAt"))


def deletion_asked_at(pod: Row) -> datetime | None:
    """When somebody asked for the pod's deletion. The API shows when its grace period is over."""
    until = moment(pod["metadata"].get("deletionTimestamp"))
    if until is None:
        return None
    return datetime.fromtimestamp(until.timestamp() - int(pod["metadata"].get("deletionGracePeriodSeconds") or 0), until.tzinfo)


def _moments(pod: Row, events: Sequence[Row]) -> dict[str, datetime | None]:
    state = harness(pod).get("state") or {}
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    admissions = (event for event in events if event.get("reason") == "Started" and "dmitted by" in str(event.get("message")))
    return {
        "requested": moment(pod["metadata"].get("creationTimestamp")),
        "admitted": _first(admissions),
        # A pod that was evicted or ran into its deadline has lost its conditions and containers on older clusters: its events have not.
        "scheduled": _condition(pod, "PodScheduled") or _first(event for event in events if event.get("reason") == "Scheduled"),
        "image_pulling": _first(_of_harness(pod, events, "Pulling")),
        "image_pulled": _first(event for event in _of_harness(pod, events, "Pulled") if _PULLED.search(str(event.get("message")))),
        "started": moment(began) or (_first(_of_harness(pod, events, "Started")) if not harness(pod) else None),
        "ready": _ready(pod),
        "finished": ended_at(pod),
        "deleted": deletion_asked_at(pod),
    }


def _is_of(involved: Row, name: str, uid: str | None) -> bool:
    other = involved.get("uid")
    return involved.get("name") == name and (other is None or uid is None or other == uid)


def _of_harness(pod: Row, events: Iterable[Row], reason: str) -> Iterator[Row]:
    """Events of a kubelet about the harness's container, not about others that were injected beside it."""
    path_of_harness = f"spec.containers{{{container_of(pod)}}}"
    for event in events:
        path = (event.get("involvedObject") or {}).get("fieldPath")
        admitted = "dmitted by" in str(event.get("message"))  # Kueue calls its event Started too
        if event.get("reason") == reason and not admitted and path in (None, "", path_of_harness):
            yield event


def _first(events: Iterable[Row]) -> datetime | None:
    return next((at for event in events if (at := moment(first_time(event))) is not None), None)


def _condition(pod: Row, *kinds: str) -> datetime | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") in kinds and condition.get("status") == "True":
            return moment(condition.get("lastTransitionTime"))
    return None


def _ready(pod: Row) -> datetime | None:
    return _condition(pod, "Ready", WAS_READY)


def _duration(text: str) -> float:
    """Seconds of a duration as Go writes it: 1m31.2s, 890ms."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
