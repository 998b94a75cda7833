"""What a worker sees of a launch, added to what was seen before: pods, events, nodes, logs.

Each look stands on its own: one that fails is told in the log and hides no other, and none may keep a pod alive.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from plumbline.harness.progress import parse
from plumbline.launch.cluster.api import ClusterApi, Refused
from plumbline.launch.cluster.base import Row, Seen
from plumbline.launch.cluster.pod_state import container_of, name_of, over, rank_of
from plumbline.launch.cluster.pod_timeline import remembered
from plumbline.launch.failures import Interrupted, TrialFailure
from plumbline.launch.process import Output
from plumbline.results import log_block

T = TypeVar("T")
_log = logging.getLogger(__name__)

_LOG_BYTES = 8 * 2**20
"""Of each pod's log at most; the end of it."""


def tolerated(what: str, action: Callable[[], T], instead: T) -> T:
    """The action's result; `instead` if the cluster or a store does not give it, and a line in the log that says what is missing."""
    try:
        return action()
    except Interrupted:  # not the action's failure: Airflow ends the task, and whatever is going on with it
        raise
    except (TrialFailure, Refused, OSError) as error:
        _log.warning("Could not %s: %s", what, error)
        return instead


def together(before: Seen, now: Seen) -> Seen:
    """Both: of each pod and event the newer copy; of each node the older one, since it is wanted as it was when the pod started."""
    pods: dict[str, Row] = {}
    for pod in (*before.pods, *now.pods):
        name = name_of(pod)
        pods[name] = remembered(pods[name], pod) if name in pods else pod
    events = {_identity(event): event for event in (*before.events, *now.events)}
    return Seen(
        expected=now.expected,
        pods=tuple(sorted(pods.values(), key=rank_of)),
        gone=before.gone | now.gone,
        events=tuple(events.values()),
        nodes={**now.nodes, **before.nodes},
        stop=now.stop or before.stop,
    )


def look(api: ClusterApi, selector: str, seen: Seen) -> Seen:
    """With what the API shows now. A pod that was there, had not ended, and is there no more was deleted by somebody else: it is gone."""
    listed = tolerated("list the launch's pods", lambda: api.pods(selector), None)
    if listed is None:
        return seen
    there = {name_of(pod) for pod in listed}
    vanished = frozenset(name_of(pod) for pod in seen.pods if name_of(pod) not in there and not over(pod))
    now = together(seen, replace(seen, pods=tuple(listed), gone=vanished))
    events = tolerated("read the events about the pods", partial(api.events, map(name_of, now.pods)), list[Row]())
    return together(now, replace(now, events=tuple(events), nodes=_nodes(api, now)))


def _nodes(api: ClusterApi, seen: Seen) -> Mapping[str, Row]:
    wanted = {name for pod in seen.pods if (name := pod.get("spec", {}).get("nodeName")) and name not in seen.nodes}
    found = {name: tolerated(f"read node {name}", partial(api.node, name), None) for name in sorted(wanted)}
    return {name: node for name, node in found.items() if node is not None}


def logs(api: ClusterApi, seen: Seen, most_s: float) -> tuple[bytes, str]:
    """What all pods printed, each under its name, and the last lines for people of rank 0; empty if there is nothing to be had.

    After `most_s` seconds no further log is begun: the pods cost money while they wait to be deleted.
    """
    parts, tail, until = [], "", time.monotonic() + most_s
    for pod in seen.pods:
        name = name_of(pod)
        if name in seen.gone:
            continue
        if time.monotonic() > until:
            _log.warning("The logs from %s on are not read: those before it took %.0f s", name, most_s)
            break
        text = tolerated(f"read the log of {name}", partial(api.log, name, container_of(pod), _LOG_BYTES), b"")
        if rank_of(pod) == 0:
            tail = _tail(text)
        parts.append(b"== " + name.encode() + b"\n" + text)
    return b"\n".join(parts), tail


def _tail(text: bytes) -> str:
    output = Output(io.BytesIO(), lambda line: parse(line) is not None or log_block.is_line(line))
    output.feed(text)
    output.close()
    return output.tail


def _identity(event: Row) -> str:
    metadata = event.get("metadata") or {}
    return str(metadata.get("uid") or metadata.get("name"))
