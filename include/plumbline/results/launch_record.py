"""The launcher's observations: metrics of the launch, and the trial's environment with the facts of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from plumbline.metrics.rows import Scalar
from plumbline.results import Event, LaunchRecord, MetricRow, PodRecord, metric_row
from plumbline.results.document import Environment, ResultDocument

LOWER_BOUND = "lower bound: replicas stayed ready until the phase ended"
"""How a time was measured that the end of the phase cut."""
_ROUNDING_S = 1.0
"""A cluster's times are cut to whole seconds: a difference of two may come out one second too short, also below zero."""


STEP_UP, STEP_DOWN, SCALED = "scale_out_stepped_up", "scale_out_stepped_down", "scale_out_ended"
"""Moments of the phase `scale_out`: its first higher rate, the return to its first one, and its end."""


def launch_metrics(record: LaunchRecord, timeline: Sequence[Event] = ()) -> tuple[MetricRow, ...]:
    """Metrics of the launch in seconds, phase `cold_start`; an unobserved value is None, never zero.

    provisioning_lead_time: from the request to the harness's first sign of life; on a cluster, to the start of the last pod's container.
    On a cluster also pod_scheduling_time (from a pod's creation to its node, queue included; the slowest pod) and image_pull_time (the
    slowest pull; None if every node held the image already); `n` is the number of pods behind the value.
    Of a gang also gang_ready_time_<N>: from the creation of its first pod until N of its nodes were ready, for each N of GANG_NODES up to its size.
    Of replicas in the phase `scale_out`, time_to_scale_in and idle_replica_time: by the harness's `timeline`, across both wall clocks.
    """
    return (*_launched(record), *_scaled_in(record, {event.name: event for event in timeline}))


def _scaled_in(record: LaunchRecord, events: Mapping[str, Event]) -> Iterator[MetricRow]:
    """From the step down until no more replicas are ready than before the first step up, and replicas × seconds beyond those until the phase's end.

    The wall clocks meet at the step up; from there on the harness's seconds count."""
    after = [event.monotonic_s for name in (STEP_UP, STEP_DOWN, SCALED) if (event := events.get(name)) and event.monotonic_s is not None]
    if len(after) < 3:
        return
    up = events[STEP_UP].utc.timestamp()
    down, end = (up + moment - after[0] for moment in after[1:])
    if not (before := [count.ready for count in record.replicas if count.at <= up]):
        return
    changes = [(min(max(count.at, down), end), count.ready - before[-1]) for count in record.replicas]
    spans = [(since, until, extra) for (since, extra), (until, _) in pairwise([*changes, (end, 0)]) if until > since]
    back = next((since for since, _, extra in spans if extra <= 0), None)
    yield metric_row(
        "time_to_scale_in",
        None if back is None else back - down,
        int(back is not None),
        phase="scale_out",
        reason=f"more replicas than before were ready until the end of the phase, {end - down:.3g}s after the step down",
    )
    idle_s = sum((until - since) * max(extra, 0) for since, until, extra in spans)
    # Replicas that were ready until the end went on being idle: what was counted is the least.
    method = None if back is not None else LOWER_BOUND
    yield metric_row("idle_replica_time", idle_s, len(record.replicas), phase="scale_out", method=method)


def _launched(record: LaunchRecord) -> tuple[MetricRow, ...]:
    if record.launcher == "kubernetes":
        # A pod that took another one's place comes after it, and its start is part of the recovery.
        pods = tuple({pod.rank: pod for pod in reversed(record.pods)}.values())
        return (
            _metric("provisioning_lead_time", _cluster_lead(record), 1),
            _scheduling(pods),
            _pulling(pods),
            *_gang_ready([_ready_s(record, pod) for pod in pods]),
        )
    if record.launcher in JOBS:
        queued = _elapsed(
            *(next((e.utc for e in record.events if e.name == name and e.clock == "cluster"), None) for name in ("created", "scheduled"))
        )
        return _metric("provisioning_lead_time", _cluster_lead(record), 1), _metric("job_queue_time", queued, 1)
    requested = next((event.monotonic_s for event in record.events if event.name == "requested"), None)
    ready = [event.monotonic_s for event in record.events if event.name == NODE_READY]
    return (
        _metric("provisioning_lead_time", _seconds_between(record.events, "requested", "harness_ready"), 1),
        *_gang_ready([None if at is None or requested is None else at - requested for at in ready]),
    )


JOBS = frozenset({"slurm", "ssh"})
"""Launchers whose jobs wait in a queue, by whose clock they are timed."""
GANG_NODES = (1, 2, 4, 8, 16)
NODE_READY = "node_ready"
"""The launcher's event of each node of a gang that has no pods."""


def gang_metric(nodes: int) -> str:
    return f"gang_ready_time_{nodes}"


def _gang_ready(seconds: Sequence[float | None]) -> tuple[MetricRow, ...]:
    """Of a gang, by its nodes' times; nothing of a single node."""
    if len(seconds) < 2:
        return ()
    known = sorted(each for each in seconds if each is not None)
    # One that was not seen may have been the first.
    return tuple(_metric(gang_metric(n), known[n - 1] if len(known) == len(seconds) else None, n) for n in GANG_NODES if n <= len(seconds))


def _ready_s(record: LaunchRecord, pod: PodRecord) -> float | None:
    created = next((event.utc for event in record.events if event.name == "created"), None)
    return _elapsed(created, _time_of(pod, "ready") or _time_of(pod, "started"))


def _metric(name: str, value: float | None, n: int) -> MetricRow:
    return metric_row(name, value, 0 if value is None else n, phase="cold_start")


def _seconds_between(events: tuple[Event, ...], first: str, last: str) -> float | None:
    at = {event.name: event.monotonic_s for event in events if event.clock == "launcher"}
    begin, end = at.get(first), at.get(last)
    return None if begin is None or end is None else end - begin


def _cluster_lead(record: LaunchRecord) -> float | None:
    """From the creation of the first pod, which follows the request at once, so that both ends are on the cluster's clock.

    Where a controller creates the pods, as for a JobSet that waits in a queue, the time until it did is added, across two clocks.
    """
    cluster = {event.name: event.utc for event in record.events if event.clock == "cluster"}
    lead = _elapsed(cluster.get("created"), cluster.get("started"))
    if lead is None or not any("kubernetes.job" in pod.facts for pod in record.pods):
        return lead
    requested = next((event.utc for event in record.events if event.name == "requested"), None)
    waited = _elapsed(requested, cluster.get("created"))
    return None if waited is None else waited + lead


def _scheduling(pods: Sequence[PodRecord]) -> MetricRow:
    took = [_elapsed(*(_time_of(pod, name) for name in ("requested", "scheduled"))) for pod in pods]
    known = [seconds for seconds in took if seconds is not None]
    # The slowest pod is known only if every pod is.
    return _metric("pod_scheduling_time", max(known) if known and len(known) == len(took) else None, len(known))


def _pulling(pods: Sequence[PodRecord]) -> MetricRow:
    pulls = [pod for pod in pods if pod.facts.get("image_cached") is False]
    took = [_pull_seconds(pod) for pod in pulls]
    known = [seconds for seconds in took if seconds is not None]
    return _metric("image_pull_time", max(known, default=None), len(known))


def _pull_seconds(pod: PodRecord) -> float | None:
    declared_s = pod.facts.get("image_pull_s")
    return (
        float(declared_s)
        if isinstance(declared_s, int | float)
        else _elapsed(_time_of(pod, "image_pulling"), _time_of(pod, "image_pulled"))
    )


def _time_of(pod: PodRecord, name: str) -> datetime | None:
    return next((event.utc for event in pod.events if event.name == name), None)


def _elapsed(begin: datetime | None, end: datetime | None) -> float | None:
    """Seconds; None if one of both is unknown, or if the clocks behind them differ so much that the end comes first."""
    if begin is None or end is None:
        return None
    seconds = (end - begin).total_seconds()
    return None if seconds < -_ROUNDING_S else max(0.0, seconds)


_POD_FACTS = {
    "kubernetes.version": "kubernetes.version",
    "kubernetes.runtime": "kubernetes.runtime",
    "qos_class": "kubernetes.qos_class",
    "image_id": "container.image_id",
    "host.instance_type": "host.instance_type",
    "host.region": "host.region",
    "host.zone": "host.zone",
}
"""A pod's fact → the environment's. Names of single launches, nodes and jobs are left out: they differ each time and explain nothing."""


def nodes_of(document: ResultDocument) -> frozenset[str]:
    """Names of the nodes that the attempt ran on; empty where nothing names them."""
    if (launch := document.launch) is None:
        return frozenset()
    pods = frozenset(pod.node for pod in launch.pods if pod.node is not None)
    return pods or frozenset(str(name) for name in (launch.node.get("host.name"),) if name is not None)


def effective_environment(document: ResultDocument) -> Environment | None:
    """The harness's facts with those of its pods that it cannot know; values that differ between a gang's pods are named together.

    The harness's own word counts where both have one. None if the harness never looked around.
    """
    if document.environment is None or document.launch is None or not document.launch.pods:
        return document.environment
    facts: dict[str, Scalar] = {}
    for name, fact in _POD_FACTS.items():
        values = sorted({str(pod.facts[name]) for pod in document.launch.pods if pod.facts.get(name) is not None})
        if values:
            facts[f"{'client.' if document.trial.provider.launcher.hosted else ''}{fact}"] = ", ".join(values)
    return Environment.of(
        {**facts, **{key: value for key, value in document.environment.facts.items() if value is not None or key not in facts}}
    )
