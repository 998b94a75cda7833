"""Pure: what the cluster's API showed of a launch, as the records that are kept when the cluster has forgotten it."""

from __future__ import annotations

from datetime import datetime

from plumbline.launch.cluster.base import Row, Seen
from plumbline.launch.cluster.payload import event_time
from plumbline.launch.cluster.pod_facts import facts
from plumbline.launch.cluster.pod_state import harness, name_of, rank_of
from plumbline.launch.cluster.pod_timeline import about, timeline
from plumbline.results import Event, Notice, PodRecord

_WHOLE_LAUNCH = ("admitted", "scheduled", "started", "ready", "finished")
"""Points that a launch has reached when its last pod has."""
_IMAGE = ("image_pulling", "image_pulled")
"""Points that a pod may never pass: its node may hold the image."""


def pod_records(seen: Seen) -> tuple[PodRecord, ...]:
    """One record for each pod that was ever seen, by rank."""
    return tuple(_record(pod, seen) for pod in sorted(seen.pods, key=lambda pod: (rank_of(pod), name_of(pod))))


def launch_events(seen: Seen, requested_at: datetime) -> tuple[Event, ...]:
    """The launch's own timeline: `requested` by the launcher's clock; by the cluster's `created` (its first pod), then what its last pod decides.

    A point that not all expected pods have reached is absent.
    """
    reached = [{event.name: event.utc for event in timeline(pod, about(pod, seen.events))} for pod in seen.pods]
    found: dict[str, datetime] = {}
    if created := [times["requested"] for times in reached if "requested" in times]:
        found["created"] = min(created)
    for name in (*_WHOLE_LAUNCH, *_IMAGE):
        times = [each[name] for each in reached if name in each]
        if times and (name in _IMAGE or len(times) >= seen.expected):
            found[name] = max(times)
    order = ("created", "admitted", "scheduled", *_IMAGE, "started", "ready", "finished")
    requested = Event(name="requested", utc=requested_at, clock="launcher")
    return (requested, *(Event(name=name, utc=found[name], clock="cluster") for name in order if name in found))


def why(pod: Row) -> str | None:
    """Why the pod ended or waits, in the cluster's own word: Evicted, OOMKilled, ImagePullBackOff, Unschedulable…; None if all is well."""
    status = pod.get("status") or {}
    state = harness(pod).get("state") or {}
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    unplaced = conditions.get("PodScheduled") or {}
    said = (
        status.get("reason"),
        *((conditions.get(kind) or {}).get("reason") for kind in ("DisruptionTarget", "TerminationTarget")),
        (state.get("terminated") or {}).get("reason"),
        (state.get("waiting") or {}).get("reason"),
        unplaced.get("reason") if unplaced.get("status") != "True" else None,
    )
    return next((str(word) for word in said if word and word not in ("Completed", "ContainerCreating")), None)


def _record(pod: Row, seen: Seen) -> PodRecord:
    events = about(pod, seen.events)
    node = (pod.get("spec") or {}).get("nodeName")
    ended = (harness(pod).get("state") or {}).get("terminated") or {}
    notices = [_notice(event) for event in events if event_time(event)]
    return PodRecord(
        name=name_of(pod),
        rank=rank_of(pod),
        uid=pod["metadata"].get("uid"),
        node=node,
        facts=facts(pod, events, seen.nodes.get(node) if node else None),
        events=timeline(pod, events),
        notices=tuple(sorted(notices, key=lambda notice: notice.utc)),
        exit_code=ended.get("exitCode"),
        reason=why(pod),
    )


def _notice(event: Row) -> Notice:
    """The event, at the time at which it was last said."""
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    return Notice(
        utc=datetime.fromisoformat(event_time(event).replace("Z", "+00:00")),
        kind="Warning" if event.get("type") == "Warning" else "Normal",
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or "").strip(),
        count=max(1, int(count)),
    )
