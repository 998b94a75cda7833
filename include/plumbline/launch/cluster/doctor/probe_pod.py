"""A small pod on a trial's nodes: image, secrets and result store, tried by the harness itself. It is deleted whatever happens.

It is a trial's pod with little to do: same image, node selection, tolerations, account, secrets and security. One of them takes the trial's
accelerators for the seconds that it looks at them.
"""

from __future__ import annotations

import copy
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.launch.cluster import names, pod_state, store_access
from plumbline.launch.cluster.base import Row
from plumbline.launch.cluster.doctor import accelerators
from plumbline.launch.cluster.doctor.cluster import Cluster, NoAnswer
from plumbline.launch.cluster.doctor.line import Line, failed, ok

_KEPT_LABELS = (names.MANAGED_BY, names.PROVIDER, "kueue.x-k8s.io/queue-name")


@dataclass(frozen=True)
class Patience:
    """How long the doctor waits, in seconds: for a node, for the start on it, for trouble to pass, for the pod's end; and between looks."""

    node_s: float = 120.0
    start_s: float = 600.0
    # A registry's hiccup is over by then; a wrong reference is not.
    trouble_s: float = 20.0
    gone_s: float = 90.0
    look_s: float = 1.0

    @property
    def whole_s(self) -> int:
        """When the pod must have ended by itself."""
        return int(self.node_s + self.start_s)


def probe_of(pod: Row, launcher: KubernetesLauncher, now: float, patience: Patience, *, gpus: int = 0) -> Row:
    """The pod, from a trial's, with so many accelerators. It names its own end, for the sweep, should the doctor die before it deletes it."""
    name = f"pl-doctor-{secrets.token_hex(4)}"
    row = copy.deepcopy(pod)
    labels = {k: v for k, v in row["metadata"].get("labels", {}).items() if k in _KEPT_LABELS} | {names.LAUNCH: name}
    row["metadata"] = {"name": name, "labels": labels, "annotations": {names.EXPIRES: str(int(now) + patience.whole_s)}}
    spec = row["spec"]
    for key in ("hostname", "subdomain", "affinity", "setHostnameAsFQDN"):
        spec.pop(key, None)
    spec["activeDeadlineSeconds"] = patience.whole_s
    spec["terminationGracePeriodSeconds"] = 1
    container = next(c for c in spec["containers"] if c["name"] == pod_state.CONTAINER)
    # The driver's library and PyTorch want more than the store's client.
    little = {"cpu": "500m", "memory": "512Mi"} if not gpus else {"cpu": "1", "memory": "2Gi", launcher.gpu_resource: str(gpus)}
    container |= {
        "command": ["python", "-m", "plumbline.harness", "check"],
        "args": ["--out", launcher.results_url],
        "resources": {"requests": little, "limits": little},
    }
    if launcher.results_secret is not None:
        # A trial's own references are optional key by key; here the Secret itself must be there.
        container["envFrom"] = [{"prefix": "PLUMBLINE_CHECKED_", "secretRef": {"name": launcher.results_secret}}]
    spec["containers"] = [container]
    spec.pop("initContainers", None)  # daemons for the network between nodes, which it does not use
    return row


def run(cluster: Cluster, pod: Row, what: str, patience: Patience, provider: Provider, gpus: int = 0) -> Iterator[Line]:
    """Create the pod, tell what becomes of it, delete it, wait until it is gone. `what`: the kind of trial whose image it is.

    `gpus`: accelerators that it takes.
    """
    name = pod["metadata"]["name"]
    made = cluster.ask("POST", cluster.inside("pods"), body=pod)
    if made.status >= 300:
        yield failed(f"pod ({what})", f"not admitted: {made.said}", "see the lines above; the namespace's policies refuse a trial's pod")
        return
    began = time.time()
    try:
        yield from _life(cluster, name, what, began, patience, provider, gpus)
    finally:
        gone = _delete(cluster, name, patience)
    if not gone:
        yield failed(f"cleanup ({what})", f"pod {name} is still there", f"kubectl -n {cluster.namespace} delete pod {name} --force")


def _life(cluster: Cluster, name: str, what: str, began: float, patience: Patience, provider: Provider, gpus: int) -> Iterator[Line]:
    image, troubled = f"image ({what})", None
    while True:
        pod = _look(cluster, name)
        if pod is None:
            yield failed(image, f"pod {name} was deleted by somebody", "try again; does a policy or an autoscaler delete pods here?")
            return
        if pod_state.phase(pod) in ("Succeeded", "Failed"):
            break
        age = time.time() - began
        reason, message = _waiting(pod)
        if reason in pod_state.TROUBLE:
            troubled = troubled or time.time()
            if reason in pod_state.HOPELESS or time.time() - troubled > patience.trouble_s:
                yield _trouble(image, reason, _said_of_pull(cluster, name) or message, pod)
                return
        elif not pod_state.on_node(pod) and age > patience.node_s:
            spare = "; do trials hold the accelerators? --no-gpu takes none" if gpus else ""
            remedy = f"see the lines about nodes, taints and queue{spare}"
            yield failed(f"pod ({what})", f"no node within {patience.node_s:g} s: {_unscheduled(pod)}", remedy)
            return
        elif age > patience.whole_s:
            yield failed(
                image,
                f"not started within {patience.start_s:g} s ({reason or 'no reason given'})",
                "is the registry slow from there, or the image huge?",
            )
            return
        time.sleep(patience.look_s)
    yield from _told(cluster, pod, what, began, provider, gpus)


def _told(cluster: Cluster, pod: Row, what: str, began: float, provider: Provider, gpus: int) -> Iterator[Line]:
    """What the harness in the pod said."""
    state = _terminated(pod)
    node = pod["spec"].get("nodeName")
    text = cluster.ask("GET", f"{cluster.inside('pods')}/{pod['metadata']['name']}/log", query={"container": pod_state.CONTAINER}).text
    said = _last_object(text)
    if said is None:
        tail = " / ".join(text.strip().splitlines()[-3:]) or state.get("message") or pod["status"].get("message") or "no log"
        yield failed(
            f"image ({what})",
            f"its harness did not run on {node}: {state.get('reason') or pod['status'].get('reason') or 'failed'}, exit code {state.get('exitCode')}: {tail}",
            "build the image from this repository (k8s/images) and declare its digest",
        )
        return
    started, scheduled = pod_state.time_of(state.get("startedAt")), pod_state.scheduled_at(pod)
    took = f" {max(0.0, started - scheduled):.0f} s after it got its node" if started is not None and scheduled is not None else ""
    # An engine of an inference image may compute without torch; only its probes want it.
    if said.get("torch_fault") and (what == "training" or said.get("torch")):
        yield failed(f"image ({what})", str(said["torch_fault"]), "build the image over a base with such a PyTorch (k8s/images/README.md)")
    else:
        yield ok(f"image ({what})", f"runs on {node}{took}; harness {said.get('harness')}, PyTorch {said.get('torch') or 'none'}")
    seen = said.get("accelerators")
    yield from accelerators.lines(provider, gpus, what, seen if isinstance(seen, dict) else None)
    if said.get("fault"):
        yield failed(
            f"store from a pod ({what})",
            str(said["fault"]),
            f"check {store_access.pods_key(provider)}, the bucket's policy, and the NetworkPolicy",
        )
    else:
        yield ok(f"store from a pod ({what})", f"written, read back and deleted in {float(said['seconds']):.2f} s")
    yield _clock(float(said["time"]), began, time.time(), str(node))


def _clock(there: float, began: float, now: float, node: str, most_s: float = 2.0) -> Line:
    """The pod read its clock between its creation and now: anything else is the difference of the clocks."""
    off = there - now if there > now else there - began if there < began else 0.0
    if abs(off) > most_s:
        return failed(
            "node clock", f"{node} is {abs(off):.0f} s {'ahead' if off > 0 else 'behind'}", "mend the node's time service (chrony)"
        )
    return ok("node clock", f"{node} agrees with this machine")


def _trouble(image: str, reason: str, message: str, pod: Row) -> Line:
    reference = pod["spec"]["containers"][0]["image"]
    if reason in pod_state.CONFIG_TROUBLE:
        return failed("secrets", f"{reason}: {message}", "make the Secret that launcher.results_secret names, in the trial's namespace")
    by_hand = reference.startswith("localhost/") and reason not in pod_state.HOPELESS
    return failed(
        image,
        f"{reason}: {message or reference}",
        f"load {reference} onto every node that a trial may get, or declare an image of a registry"
        if by_hand
        else f"is {reference} right, may the nodes pull it (image_pull_secrets, k8s/provider/components/pull-secret)?",
    )


def _said_of_pull(cluster: Cluster, name: str) -> str:
    """Why the image did not come, by the newest event that says so: a pull that is put off for a while does not repeat it."""
    answer = cluster.ask("GET", cluster.inside("events"), query={"fieldSelector": f"involvedObject.name={name}"})
    events = answer.row.get("items") or [] if answer.status < 300 else []
    said = [str(e.get("message")) for e in events if e.get("reason") == "Failed" and "ailed to pull image" in str(e.get("message"))]
    return said[-1] if said else ""


def _look(cluster: Cluster, name: str) -> Row | None:
    answer = cluster.ask("GET", f"{cluster.inside('pods')}/{name}")
    if answer.status == 404:
        return None
    if answer.status >= 300:
        raise NoAnswer(f"pod {name} cannot be looked at: {answer.said}", "see the lines about permissions")
    return answer.row


def _delete(cluster: Cluster, name: str, patience: Patience) -> bool:
    path = f"{cluster.inside('pods')}/{name}"
    cluster.ask("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1"})
    until = time.monotonic() + patience.gone_s
    while time.monotonic() < until:
        if cluster.ask("GET", path).status == 404:
            return True
        time.sleep(patience.look_s)
    return False


def _waiting(pod: Row) -> tuple[str, str]:
    for status in pod["status"].get("containerStatuses") or []:
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting:
            return str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    return "", ""


def _unscheduled(pod: Row) -> str:
    for condition in pod["status"].get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return str(condition.get("message") or condition.get("reason") or "no reason given")
    return "the scheduler has not said why"


def _terminated(pod: Row) -> Row:
    for status in pod["status"].get("containerStatuses") or []:
        if status["name"] == pod_state.CONTAINER:
            return dict((status.get("state") or {}).get("terminated") or {})
    return {}


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "fault" in found:
            return found
    return None
