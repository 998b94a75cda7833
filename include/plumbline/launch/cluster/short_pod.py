"""A short pod on a trial's nodes, made from a trial's pod, watched to its end and deleted: the doctor's and the hardware probe's."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from functools import partial

from plumbline.launch.cluster import names
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.manifests.trial_pod import QUEUE, remove_key
from plumbline.launch.cluster.observe.observation import CONTAINER, LaunchObservation, Row, is_running, name_of, parse_time
from plumbline.launch.cluster.observe.pod_watch import PodWatch, WatchLimits
from plumbline.launch.remote import tolerate

_LOG_BYTES = 2**20
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
    remove_key(container)
    container |= {"command": [command if word == "run" else word for word in container["command"]], "args": arguments}
    return row


def harness_container(pod: Row) -> Row:
    """The container of a trial's pod in which the harness runs."""
    container: Row = next(c for c in pod["spec"]["containers"] if c["name"] == CONTAINER)
    return container


@dataclass(frozen=True)
class ShortPodRun:
    """`seen`: the pod until its end. `log`: of its harness. `began`, `ended`: times of the watch by this machine's clock, seconds since the
    epoch. `left`: descriptions of objects that still exist after the deletion."""

    seen: LaunchObservation
    log: str
    began: float
    ended: float
    left: list[str]


def run_short_pod(api: ClusterApi, pod: Row, patience: PodPatience, run_s: float) -> ShortPodRun:
    """Create the pod, watch it until it ended, is gone, or exceeds its patience or `run_s` after its start, and delete it in every case.

    ApiRefused if the cluster refuses the pod; Unreachable if it does not answer.
    """
    name, began = name_of(pod), time.time()
    created = api.create(pod)
    try:
        seen = _watch(api, created, patience, run_s)
        log = tolerate(f"read the log of {name}", partial(api.log, name, CONTAINER, _LOG_BYTES), b"").decode("utf-8", "replace")
        ended = time.time()
    finally:
        remove = partial(api.remove, None, f"{names.MANAGED_BY}={names.MANAGER},{names.LAUNCH}={name}", wait_s=patience.gone_s)
        left = tolerate(f"delete the pod {name}", remove, [f"Pod {name}"])
    return ShortPodRun(seen, log, began, ended, left)


def _watch(api: ClusterApi, created: Row, patience: PodPatience, run_s: float) -> LaunchObservation:
    # The cluster's clock, which stamps the pod, may differ from this machine's.
    name, asked_at, began = name_of(created), parse_time(created["metadata"].get("creationTimestamp")) or time.time(), time.monotonic()
    deadline = asked_at + patience.node_s + patience.start_s + run_s
    limits = WatchLimits(1, asked_at, patience.node_s, patience.start_s, deadline, patience.trouble_s, patience.gone_s)
    watch = PodWatch(limits, known=[name])
    while True:
        pod = api.get("Pod", name)
        if pod is None or not is_running(pod):
            watch.hear(tolerate("read the pod's events", partial(api.events, [name]), list[Row]()))
        now = asked_at + time.monotonic() - began
        decision = watch.look([] if pod is None else [pod], now, now)
        if decision is not None and decision.status != "started":
            return watch.seen(decision.stop)
        time.sleep(patience.poll_s)
