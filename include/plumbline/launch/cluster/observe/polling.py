"""Poll the pods, events, nodes and logs of a launch from a worker."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from plumbline.harness.launcher_protocol import parse_progress
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.node_gpus import PASSING_TAINT, NodeGpus
from plumbline.launch.cluster.observe.observation import CONTAINER, LaunchObservation, Row, has_ended, has_succeeded, name_of, rank_of
from plumbline.launch.cluster.observe.pod_records import keep_ready_time
from plumbline.launch.local.process import TrialOutput
from plumbline.launch.remote import tolerate
from plumbline.results import log_transport

_log = logging.getLogger(__name__)

_LOG_BYTES = 8 * 2**20
"""The most of each pod's log that is read, from its end."""


def merge_observations(before: LaunchObservation, now: LaunchObservation) -> LaunchObservation:
    """The newer copy of each pod and event; the older one of each node, as of the pod's start."""
    pods: dict[str, Row] = {}
    for pod in (*before.pods, *now.pods):
        name = name_of(pod)
        pods[name] = keep_ready_time(pods[name], pod) if name in pods else pod
    events = {_event_key(event): event for event in (*before.events, *now.events)}
    return LaunchObservation(
        expected=now.expected,
        pods=tuple(sorted(pods.values(), key=rank_of)),
        gone=before.gone | now.gone,
        events=tuple(events.values()),
        nodes={**now.nodes, **before.nodes},
        leaving={**before.leaving, **now.leaving},
        stop=now.stop or before.stop,
    )


def poll_launch(api: ClusterApi, selector: str, observation: LaunchObservation) -> LaunchObservation:
    """The observation with the API's present state. A known pod that has not ended and no longer exists is gone."""
    listed = tolerate("list the launch's pods", lambda: api.pods(selector), None)
    if listed is None:
        return observation
    existing = {name_of(pod) for pod in listed}
    vanished = frozenset(name_of(pod) for pod in observation.pods if name_of(pod) not in existing and not has_ended(pod))
    now = merge_observations(observation, replace(observation, pods=tuple(listed), gone=vanished))
    events = tolerate("read the events about the pods", partial(api.events, map(name_of, now.pods)), list[Row]())
    return merge_observations(now, replace(now, events=tuple(events), nodes=_nodes(api, now)))


def _nodes(api: ClusterApi, observation: LaunchObservation) -> Mapping[str, Row]:
    wanted = {name for pod in observation.pods if (name := pod.get("spec", {}).get("nodeName")) and name not in observation.nodes}
    nodes = {name: tolerate(f"read node {name}", partial(api.node, name), None) for name in sorted(wanted)}
    return {name: node for name, node in nodes.items() if node is not None}


def poll_ended_nodes(api: ClusterApi, observation: LaunchObservation) -> LaunchObservation:
    """The observation with the reason why a node goes down, changes or is gone: that of rank 0 if its pod ended with exit code 0, and the first
    one whose pod failed or was deleted. Such a node may have ended it."""
    ended = [pod for pod in observation.pods if rank_of(pod) == 0 and has_succeeded(pod)]
    failed = [pod for pod in observation.pods if (has_ended(pod) and not has_succeeded(pod)) or _taken(pod, observation)]
    unread: Row | None = {"metadata": {}}
    leaving = dict(observation.leaving)
    for name in dict.fromkeys(str((pod.get("spec") or {}).get("nodeName") or "") for pod in (*ended[:1], *failed[:1])):
        node = tolerate(f"read node {name}", partial(api.node, name), unread) if name else unread
        if (why := "its node no longer exists" if node is None else _leaving(node)) is not None:
            leaving[name] = why
    return replace(observation, leaving=leaving)


def _taken(pod: Row, observation: LaunchObservation) -> bool:
    return name_of(pod) in observation.gone or bool(pod["metadata"].get("deletionTimestamp"))


def _leaving(node: Row) -> str | None:
    if (node.get("metadata") or {}).get("deletionTimestamp"):
        return "its node is being deleted"
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            return f"its node is not ready ({condition.get('reason') or 'no reason'})"
    if (changes := NodeGpus(node, "").changes) is not None:
        return f"its node {changes}"
    taints = [str(taint.get("key")) for taint in (node.get("spec") or {}).get("taints") or ()]
    return next((f"its node goes down (taint {key})" for key in taints if PASSING_TAINT.search(key)), None)


def read_logs(api: ClusterApi, observation: LaunchObservation, most_s: float) -> tuple[bytes, str]:
    """All pods' logs, each under its pod's name, and the last lines of rank 0 for people.

    Starts no further log after `most_s` seconds: the pods cost money until they are deleted.
    """
    parts, tail, until = [], "", time.monotonic() + most_s
    for pod in observation.pods:
        name = name_of(pod)
        if name in observation.gone:
            continue
        if time.monotonic() > until:
            _log.warning("Skipping the logs from %s on: the others took %.0f s", name, most_s)
            break
        text = tolerate(f"read the log of {name}", partial(api.log, name, CONTAINER, _LOG_BYTES), b"")
        if rank_of(pod) == 0:
            tail = _tail(text)
        parts.append(b"== " + name.encode() + b"\n" + text)
    return b"\n".join(parts), tail


def _tail(text: bytes) -> str:
    output = TrialOutput(io.BytesIO(), lambda line: parse_progress(line) is not None or log_transport.is_block_line(line))
    output.feed(text)
    output.close()
    return output.tail


def _event_key(event: Row) -> str:
    metadata = event.get("metadata") or {}
    return str(metadata.get("uid") or metadata.get("name"))
