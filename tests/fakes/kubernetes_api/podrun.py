"""One pod that lives: its status as the kubelet and the control plane would write it, in a thread of its own."""

from __future__ import annotations

import base64
import contextlib
import copy
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from tests.fakes.kubernetes_api.store import Row, Store, seconds

if TYPE_CHECKING:
    from tests.fakes.kubernetes_api.script import Script

Step = Callable[["PodRun"], None]


class Cluster(Protocol):
    """What a pod's life needs of the cluster around it."""

    store: Store
    minor: int
    termination_s: float

    def event(self, about: Row, reason: str, message: str, *, kind: str = "Normal", by: str = "kubelet") -> None: ...


class Gone(Exception):
    """The pod does not live any more: the rest of its script does not happen."""


class PodRun:
    """One pod's life in a thread of its own. `stopping` is set when the pod is to end: callables should look at it."""

    def __init__(self, cluster: Cluster, row: Row, script: Script) -> None:
        self.cluster = cluster
        self.row = row
        self.stopping = threading.Event()
        self.lines: list[tuple[datetime, str]] = []
        self.stuck = False
        self._script = script
        self._generation = 0
        self._mine = threading.local()
        self._begin()

    @property
    def pod(self) -> Row:
        """A copy of the pod as it is now."""
        with self.cluster.store.lock:
            return copy.deepcopy(self.row)

    def environment(self) -> dict[str, str]:
        """The container's variables as its process sees them; LookupError for a Secret, or a key of one, that is not there."""
        found = {}
        for entry in self.pod["spec"]["containers"][0].get("env", []):
            reference = (entry.get("valueFrom") or {}).get("secretKeyRef")
            if reference is None:
                if "valueFrom" not in entry:  # nobody computes fields of the pod here
                    found[entry["name"]] = entry.get("value", "")
                continue
            secret = self.cluster.store.rows.get(("secrets", self.row["metadata"]["namespace"], reference["name"]), {})
            if reference["key"] in secret.get("data", {}):
                found[entry["name"]] = base64.b64decode(secret["data"][reference["key"]]).decode()
            elif not reference.get("optional"):
                raise LookupError(f'secret "{reference["name"]}" not found')
        return found

    def say(self, *lines: str) -> None:
        """Lines on the container's standard output."""
        self.lines.extend((datetime.now(timezone.utc), line) for line in lines)

    def become(self, script: Script) -> None:
        """Live on by another script: something happened from the outside."""
        self._generation += 1
        self._script = script
        self._begin()

    def wait(self, duration_s: float) -> None:
        """Time passes, unless the pod is to end."""
        if self.stopping.wait(duration_s):
            raise Gone

    def status(self, **fields: Any) -> None:
        """Change the status; Gone if the pod is no more or lives by another script."""
        with self._alive():
            self.row["status"].update(fields)
            self.cluster.store.touch(self.row)

    def condition(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        said = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": seconds()}
        said |= {"reason": reason} if reason else {}
        said |= {"message": message} if message else {}
        with self._alive():
            others = [held for held in self.row["status"].get("conditions", []) if held["type"] != kind]
            self.row["status"]["conditions"] = [*others, said]
            self.cluster.store.touch(self.row)

    def containers(self, state: Row, *, ready: bool = False) -> None:
        """The same state for each container."""
        found = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "" if "waiting" in state else f"{container['image'].partition('@')[0]}@sha256:{'1' * 64}",
                "containerID": "" if "waiting" in state else f"containerd://{self.row['metadata']['uid'].replace('-', '')}",
                "ready": ready,
                "started": "running" in state,
                "restartCount": 0,
                "lastState": {},
                "state": copy.deepcopy(state),
            }
            for container in self.row["spec"]["containers"]
        ]
        self.status(containerStatuses=found)

    def started_at(self) -> str:
        states = [held["state"] for held in self.row["status"].get("containerStatuses", [])]
        return next((state["running"]["startedAt"] for state in states if "running" in state), seconds())

    def event(self, reason: str, message: str, *, kind: str = "Normal", by: str = "kubelet") -> None:
        self.cluster.event(self.row, reason, message, kind=kind, by=by)

    def end(self, exit_code: int, told: str | None = None, *, phase: str | None = None, said: str = "", **status: Any) -> None:
        """The containers end, and the pod with them; only once."""
        if self.row["status"].get("phase") in ("Succeeded", "Failed"):
            raise Gone
        if phase is None:
            phase = "Succeeded" if exit_code == 0 else "Failed"
        told = told or ("Completed" if exit_code == 0 else "Error")
        finished = {"exitCode": exit_code, "reason": told, "startedAt": self.started_at(), "finishedAt": seconds()}
        if said:
            finished["message"] = said
        self.containers({"terminated": finished})
        done = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        self.condition("Ready", "False", done)
        self.condition("ContainersReady", "False", done)
        self.status(phase=phase, **status)

    def delete(self, grace: int | None) -> None:
        """Somebody deletes the pod: it is told to end, and is gone a little later. Called with the store's lock held."""
        running = any("running" in held["state"] for held in self.row["status"].get("containerStatuses", []))
        if grace == 0 or not (running or self.stuck):
            self.stopping.set()
            self.cluster.store.remove("pods", self.row)
            return
        if "deletionTimestamp" in self.row["metadata"]:
            return
        period = self.row["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        self.cluster.store.touch(self.row, deletionTimestamp=seconds(), deletionGracePeriodSeconds=period)
        self.stopping.set()
        if self.stuck:
            return
        self.event("Killing", "Stopping container harness")
        threading.Thread(target=self._terminate, daemon=True).start()

    def _terminate(self) -> None:
        time.sleep(self.cluster.termination_s)
        with contextlib.suppress(Gone):
            self.end(143)
        time.sleep(self.cluster.termination_s)
        self.cluster.store.remove("pods", self.row)

    def _begin(self) -> None:
        threading.Thread(target=self._live, args=(self._script, self._generation), daemon=True).start()

    def _live(self, script: Script, generation: int) -> None:
        self._mine.generation = generation
        for step in script.steps:
            if self.stopping.is_set():
                return
            try:
                step(self)
            except Gone:
                return

    def _alive(self) -> Any:
        store = self.cluster.store
        with store.lock:
            replaced = getattr(self._mine, "generation", self._generation) != self._generation
            if replaced or store.rows.get(store.key("pods", self.row)) is not self.row:
                raise Gone
        return store.lock
