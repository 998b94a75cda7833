"""A Kubernetes API that listens on loopback. Pods live by scripts; the API fails on demand; every request is kept.

    with FakeKubernetes() as kube:
        kube.script("pl-*", Script().started().log("hello").after(0.1).succeeded())
        kube.script("pl-*-1", Script().started().oom_killed())   # the script that was told last wins
        kube.answer_next(429, times=2, match="GET /api/v1/namespaces/*/pods*", retry_after=1)
        os.environ["AIRFLOW_CONN_K8S"] = kube.connection_json("plumbline")
        …
        assert kube.leftovers("plumbline") == []

What it does not do: watches end at once, patches are merge patches, nothing is scheduled or admitted but by a script.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from tests.fakes.kubernetes_api.asked import Asked, Call, Fault, matches
from tests.fakes.kubernetes_api.controllers import expand
from tests.fakes.kubernetes_api.podrun import PodRun
from tests.fakes.kubernetes_api.rows import event_row, node_row, quality
from tests.fakes.kubernetes_api.script import Script
from tests.fakes.kubernetes_api.server import Listener
from tests.fakes.kubernetes_api.store import CLUSTER_SCOPED, Row, Store, seconds

__all__ = ["Call", "FakeKubernetes", "PodRun", "Script"]

Choice = Callable[[Row], Script | None]


class FakeKubernetes:
    """One cluster, between `with` and its end. `minor` is its version: 1.<minor>.

    `token` is the only one that it takes: assign another to rotate it. `forbidden` holds (verb, resource) pairs as
    `kubectl auth can-i` names them, such as ("create", "pods"), ("get", "pods/log"), ("list", "jobsets.jobset.x-k8s.io").
    `rules` are what a SelfSubjectRulesReview answers, `rules_incomplete` that an authorizer cannot list its own.
    `absent` holds API groups that it does not serve. A service account's token lives `longest_token_s` at most. `termination_s`: half of the time that a running pod takes to be gone.
    """

    def __init__(self, namespaces: Iterable[str] = ("default", "plumbline"), *, minor: int = 31, termination_s: float = 0.02) -> None:
        self.store = Store()
        self.minor = minor
        self.termination_s = termination_s
        self.clock_skew_s = 0.0
        self.token = "fake-token"
        self.forbidden: set[tuple[str, str]] = set()
        self.rules: list[Row] = []
        self.rules_incomplete = False
        self.longest_token_s = 366 * 86400.0
        self.absent: set[str] = set()
        self.requests: list[Call] = []
        self.runs: dict[tuple[str, str], PodRun] = {}
        self.default = Script().started().succeeded()
        self._scripts: list[Choice] = []
        self._faults: list[Fault] = []
        self._slow: list[tuple[str, float]] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._events = itertools.count(1)
        self._listener: Listener | None = None
        self.port = 0
        self.store.created = self._created
        self.store.pod_deleted = lambda row, grace: self._run_of(row).delete(grace)
        for name in namespaces:
            self.store.put("namespaces", {"metadata": {"name": name}, "status": {"phase": "Active"}})
        self.node("node-1")
        self._planted: set[tuple[str, str, str]] = set(self.store.rows)

    def __enter__(self) -> FakeKubernetes:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for run in list(self.runs.values()):
            run.stopping.set()
        self.down()

    # What lives on it.

    def script(self, which: str | Choice, script: Script | None = None) -> None:
        """What becomes of pods whose name matches a pattern, or what a function of the pod says (None: not mine). The last one told wins."""
        if callable(which):
            self._scripts.append(which)
        elif script is None:
            raise TypeError("a pattern needs a script")
        else:
            self._scripts.append(lambda pod: script if fnmatchcase(pod["metadata"]["name"], which) else None)

    def become(self, pattern: str, script: Script) -> None:
        """From the outside: pods that are there now live on by another script, such as `Script().preempted()`."""
        found = [run for (_, name), run in list(self.runs.items()) if fnmatchcase(name, pattern)]
        if not found:
            raise LookupError(f"no pod matches {pattern}; there are: {[name for _, name in self.runs]}")
        for run in found:
            run.become(script)

    def put(self, plural: str, namespace: str, row: Row) -> Row:
        """Plant an object that is there from the start and does not count as left over."""
        with self.store.lock:
            meta = {**row["metadata"], **({} if plural in CLUSTER_SCOPED else {"namespace": namespace})}
            stored = self.store.put(plural, {**row, "metadata": meta})
            self._planted = getattr(self, "_planted", set()) | {self.store.key(plural, stored)}
            return stored

    def node(self, name: str, *, labels: dict[str, str] | None = None, gpus: int = 8, images: dict[str, int] | None = None) -> Row:
        """A node; `images` are the bytes of the images that it holds, by reference."""
        return self.put("nodes", "", node_row(name, self.minor, labels, gpus, images))

    def quota(self, namespace: str, **hard: str) -> None:
        """A ResourceQuota that holds: `kube.quota("plumbline", **{"requests.nvidia.com/gpu": "8"})`."""
        self.put("resourcequotas", namespace, {"metadata": {"name": "plumbline"}, "spec": {"hard": hard}})

    def pods(self, namespace: str = "plumbline") -> dict[str, Row]:
        """Copies of the pods by name."""
        return {row["metadata"]["name"]: row for row in self.store.list("pods", namespace)}

    def leftovers(self, namespace: str = "plumbline") -> list[str]:
        """Whatever was created in the namespace and is still there, such as pods/x; events are not counted."""
        with self.store.lock:
            mine = [key for key in self.store.rows if key[1] == namespace and key[0] != "events" and key not in self._planted]
        return sorted(f"{plural}/{name}" for plural, _, name in mine)

    def event(self, about: Row, reason: str, message: str, *, kind: str = "Normal", by: str = "kubelet") -> None:
        """An Event about an object, as the component `by` writes it; the same one again counts up."""
        meta = about["metadata"]
        now = seconds()
        with self.store.lock:
            for row in self.store.rows.values():
                same = row["kind"] == "Event" and (row["involvedObject"]["uid"], row["reason"], row["message"]) == (
                    meta["uid"],
                    reason,
                    message,
                )
                if same:
                    row["count"] = (row["count"] or 1) + 1
                    row["lastTimestamp"] = now
                    return
            self.store.put("events", event_row(about, reason, message, kind, by, next(self._events)))

    # How it is reached, and how it fails.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, namespace: str = "plumbline") -> dict[str, Any]:
        """A kubeconfig with the token of this moment."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {"token": self.token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": namespace}}],
            "current-context": "fake",
        }

    def connection_json(self, namespace: str = "plumbline") -> str:
        """An Airflow connection, for AIRFLOW_CONN_…."""
        extra = {"kube_config": json.dumps(self.kubeconfig(namespace)), "namespace": namespace}
        return json.dumps({"conn_type": "kubernetes", "extra": extra})

    def answer_next(
        self,
        code: int = 500,
        *,
        times: int = 1,
        match: str = "*",
        retry_after: int | None = None,
        message: str | None = None,
        cut: bool = False,
        after_work: bool = False,
    ) -> None:
        """The next requests that match `METHOD /path?query` are refused, or cut off; `after_work`: what was asked is done all the same."""
        with self._lock:
            self._faults.append(Fault(code, times, match, retry_after, message, cut, after_work))

    def heal(self) -> None:
        """No more faults on demand, no more slowness."""
        with self._lock:
            self._faults.clear()
            self._slow.clear()

    def slow(self, duration_s: float, match: str = "*") -> None:
        """Requests that match take this much longer, until `heal`."""
        with self._lock:
            self._slow.append((match, duration_s))

    def down(self) -> None:
        """The API server is gone: connections are cut, new ones refused. Pods live on."""
        if self._listener is not None:
            self._listener.shutdown()
            self._listener.server_close()
            self._listener.cut()
            self._listener = None

    def up(self) -> None:
        """The API server is there, on the port that it had."""
        if self._listener is None:
            self._listener = Listener(self, self.port)
            self.port = self._listener.server_port
            threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def called(self, match: str) -> list[Call]:
        """Requests so far that match a pattern."""
        return [call for call in list(self.requests) if matches(match, Asked(call.method, call.path, call.query, None))]

    def wait_for(self, holds: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Wait until something holds; AssertionError that names it if it does not in time."""
        end = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout_s} s: {what}")
            time.sleep(0.01)

    # What the server asks.

    def serves(self, group_version: str) -> bool:
        return group_version.partition("/")[0] not in self.absent

    def pause(self, asked: Asked) -> None:
        with self._lock:
            pauses = [duration for pattern, duration in self._slow if matches(pattern, asked)]
        if pauses:
            self._over.wait(sum(pauses))

    def fault_for(self, asked: Asked) -> Fault | None:
        with self._lock:
            found = next((fault for fault in self._faults if matches(fault.match, asked)), None)
            if found is not None:
                found.times -= 1
                if found.times <= 0:
                    self._faults.remove(found)
            return found

    def note(self, asked: Asked, code: int | None) -> None:
        self.requests.append(Call(asked.method, asked.path, asked.query, asked.body, code))

    def _created(self, plural: str, row: Row) -> None:
        if plural == "pods":
            row["status"] = {"phase": "Pending", "qosClass": quality(row)}
            row["spec"].setdefault("terminationGracePeriodSeconds", 30)
            row["spec"].setdefault("restartPolicy", "Always")
            shown = copy.deepcopy(row)
            chosen = (choice(shown) for choice in reversed(self._scripts))
            script = next((found for found in chosen if found is not None), self.default)
            self.runs[row["metadata"]["namespace"], row["metadata"]["name"]] = PodRun(self, row, script)
        elif plural == "secrets" and "stringData" in row:
            row["data"] = {name: base64.b64encode(text.encode()).decode() for name, text in row.pop("stringData").items()}
        elif plural == "secrets" and row.get("type") == "kubernetes.io/service-account-token":
            row["data"] = {"token": base64.b64encode(self.token.encode()).decode()}
        else:
            expand(self.store, plural, row)

    def _run_of(self, row: Row) -> PodRun:
        return self.runs[row["metadata"]["namespace"], row["metadata"]["name"]]
