"""A short pod on a trial's nodes, made from a trial's pod and watched to its end: the doctor's and the hardware probe's."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from plumbline.launch.cluster import names
from plumbline.launch.cluster.manifests.trial_pod import QUEUE
from plumbline.launch.cluster.observe.observation import CONTAINER, LaunchObservation, Row, is_running, name_of, parse_time
from plumbline.launch.cluster.observe.pod_watch import PodWatch, WatchLimits

_POD_LABELS = (names.MANAGED_BY, names.PROVIDER, QUEUE)


@dataclass(frozen=True)
class PodPatience:
    """Seconds that a short pod may take: for a node, for the start on it, for start failures to pass, for its deletion; and between polls."""

    node_s: float
    start_s: float
    # A registry recovers by then; a wrong reference does not.
    trouble_s: float
    gone_s: float
    poll_s: float


def short_pod(pod: Row, name: str, *, command: str, arguments: list[str], whole_s: float, expires: float) -> Row:
    """From a trial's pod: the same image, node selection, tolerations, account, secrets and security, with another command of the harness.

    `whole_s`: its own deadline. `expires`: seconds since the epoch, after which the sweep deletes it if its maker died.
    """
    row = copy.deepcopy(pod)
    labels = {key: value for key, value in row["metadata"].get("labels", {}).items() if key in _POD_LABELS} | {names.LAUNCH: name}
    annotations = {key: value for key, value in row["metadata"].get("annotations", {}).items() if key != names.TRIAL}
    row["metadata"] = {"name": name, "labels": labels, "annotations": annotations | {names.EXPIRES: str(int(expires))}}
    spec = row["spec"]
    for key in ("hostname", "subdomain", "affinity", "setHostnameAsFQDN"):
        spec.pop(key, None)
    spec["activeDeadlineSeconds"] = int(whole_s)
    container = harness_container(row)
    container |= {"command": [command if word == "run" else word for word in container["command"]], "args": arguments}
    return row


def harness_container(pod: Row) -> Row:
    """The container of a trial's pod in which the harness runs."""
    container: Row = next(c for c in pod["spec"]["containers"] if c["name"] == CONTAINER)
    return container


def watch_short_pod(
    created: Row,
    read: Callable[[], Iterable[Row]],
    events: Callable[[], Iterable[Row]],
    patience: PodPatience,
    run_s: float,
) -> LaunchObservation:
    """Poll the pod until it ended, is gone, or is stopped by its patience, or `run_s` after its start; what was observed.

    `created`: the pod as the API stored it. `read`: the pod now, nothing if it is gone. `events`: about the pod.
    """
    # The cluster's clock, which stamps the pod, may differ from this machine's.
    asked_at, began = parse_time(created["metadata"].get("creationTimestamp")) or time.time(), time.monotonic()
    deadline = asked_at + patience.node_s + patience.start_s + run_s
    limits = WatchLimits(1, asked_at, patience.node_s, patience.start_s, deadline, patience.trouble_s, patience.gone_s)
    watch = PodWatch(limits, known=[name_of(created)])
    while True:
        pods = list(read())
        if not all(map(is_running, pods)):
            watch.hear(events())
        now = asked_at + time.monotonic() - began
        decision = watch.look(pods, now, now)
        if decision is not None and decision.status != "started":
            return watch.seen(decision.stop)
        time.sleep(patience.poll_s)
