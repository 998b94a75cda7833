"""Everything that the end-to-end tests stand on, put up in order and taken down in the reverse order whatever happens."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import declared, images
from tests.cluster.admin import PRODUCT, Cluster
from tests.cluster.airflow_parts import AirflowParts
from tests.cluster.object_store import ObjectStore

from plumbline.declarations import load
from plumbline.embedded.client import AirflowClient, DagRun, TaskInstance
from plumbline.launch.cluster import launcher_account

_OVERLAYS = "../../base"
_FAILING = r"""RUN printf '#!/bin/sh\necho this image is broken\nexit 7\n' >/usr/local/bin/python && chmod 755 /usr/local/bin/python
USER 10001:10001"""
FAILING_EXIT_CODE = 7


@dataclass
class World:
    """The cluster, the store, Airflow, and what was planted. `secrets`: what must be found nowhere."""

    cluster: Cluster
    store: ObjectStore
    airflow: AirflowParts
    client: AirflowClient
    home: Path
    namespaces: Mapping[str, str]
    image: str
    secrets: tuple[str, ...] = field(repr=False)

    def namespace(self, provider: str) -> str:
        """The namespace of a provider; the broken ones live in the first's."""
        return self.namespaces.get(provider, self.namespaces[declared.ONE])

    def shown_as(self, provider: str) -> None:
        """The nodes carry the provider's GPU product: one node can be of one product at a time."""
        for node in self.cluster.nodes():
            self.cluster.label(node["metadata"]["name"], {PRODUCT: declared.PRODUCTS.get(provider, declared.PRODUCTS[declared.ONE])})

    def start(self, provider: str, workloads: list[str], campaign: str) -> DagRun:
        """Trigger a provider's benchmark for a campaign."""
        dag_id = load().providers[provider].dag_id
        self.client.set_paused(dag_id, False)
        return self.client.trigger(dag_id, {"campaign": campaign, "reason": "end to end", "workloads": workloads})

    def ended(self, run: DagRun, seconds: float = 600.0) -> DagRun:
        """Wait for the end of a run."""

        def look() -> DagRun | None:
            seen = self.client.run(run.dag_id, run.run_id)
            return seen if seen.ended else None

        try:
            found: DagRun = self.cluster.eventually(look, seconds)
        except TimeoutError as error:
            states = [f"{t.task_id}[{t.map_index}] {t.state}" for t in self.client.tasks(run.dag_id, run.run_id)]
            raise TimeoutError(f"{run.dag_id} {run.run_id} did not end in {seconds:g} s: {', '.join(states)}") from error
        return found

    def task(self, run: DagRun, suffix: str) -> TaskInstance:
        """The one task instance whose id ends so."""
        (found,) = [t for t in self.client.tasks(run.dag_id, run.run_id) if t.task_id.endswith(suffix) and t.map_index >= 0]
        return found

    def wait_for_state(self, run: DagRun, suffix: str, state: str, seconds: float = 180.0) -> TaskInstance:
        """Wait until that task is in a state, such as deferred."""
        found: TaskInstance = self.cluster.eventually(lambda: (t := self.task(run, suffix)).state == state and t, seconds)
        return found

    def set_task_state(self, run: DagRun, suffix: str, state: str) -> None:
        """Mark a task's state, as a person does in Airflow's pages."""
        task = self.task(run, suffix)
        self._rest("PATCH", f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task.task_id}/{task.map_index}", {"new_state": state})

    def clear(self, run: DagRun, suffix: str) -> None:
        """Clear a task, as a person does in Airflow's pages."""
        task = self.task(run, suffix)
        body = {"dag_run_id": run.run_id, "task_ids": [[task.task_id, task.map_index]], "dry_run": False, "only_failed": False}
        self._rest("POST", f"/dags/{run.dag_id}/clearTaskInstances", body)

    def _rest(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        with self.airflow.http() as http:
            answer = http.request(method, f"/api/v2{path}", json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"

    def explain(self, run: DagRun) -> str:
        """The logs of a run's failed tasks: for the message of a failed test."""
        failed = [t for t in self.client.tasks(run.dag_id, run.run_id) if t.state in ("failed", "up_for_retry")]
        return "\n\n".join(f"{t.task_id}[{t.map_index}]:\n{self.client.task_log(run.dag_id, run.run_id, t)[-4000:]}" for t in failed)


@contextmanager
def world(kubeconfig: Path) -> Iterator[World]:
    """Put it all up. Pods find the store at this machine's address; nothing of it is left afterwards."""
    cluster = Cluster(kubeconfig)
    mark = secrets.token_hex(3)
    planted, key = f"planted-{secrets.token_hex(16)}", f"planted-key-{mark}"
    namespaces = {declared.ONE: f"e2e-{mark}-one", declared.TWO: f"e2e-{mark}-two"}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plumbline-e2e-")))
        if keep := os.environ.get("E2E_KEEP"):
            stack.callback(lambda: shutil.copytree(home, keep, dirs_exist_ok=True))
        present = cluster.images()
        image = images.built("cpu", cluster.context, present)
        failing = images.derived("exit-7", _FAILING, cluster.context, present)
        store = stack.enter_context(ObjectStore(cluster.address_of_this_machine(), f"plumbline-{mark}", key, planted))
        stack.enter_context(cluster.fake_gpus(8))
        tokens = []
        connections = {"AIRFLOW_CONN_E2E_STORE": store_connection(store)}
        for provider, namespace in namespaces.items():
            stack.enter_context(cluster.namespace(namespace, _overlay(namespace, store)))
            cluster.secret(namespace, "plumbline-results", store.pod_secret())
            granted = launcher_account.grant_access(launcher_account.admin_client(kubeconfig), namespace, lifetime_s=4 * 3600.0)
            tokens.append(str(granted.kubeconfig["users"][0]["user"]["token"]))
            connections[f"AIRFLOW_CONN_K8S_{provider.replace('-', '_').upper()}"] = json.dumps(granted.as_connection())
        for name in declared.BESIDE:
            connections[f"AIRFLOW_CONN_K8S_{name.replace('-', '_').upper()}"] = connections["AIRFLOW_CONN_K8S_E2E_ONE"]
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PLUMBLINE_HOME", str(home))
        patch.setenv("PLUMBLINE_CONFIG", str(declared.write(home / "config", namespaces, image, failing, store.url)))
        for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
            patch.delenv(name, raising=False)
        stack.callback(_unlabel, cluster)
        airflow = stack.enter_context(AirflowParts(home / "airflow", connections))
        client = stack.enter_context(airflow.client())
        cluster.eventually(lambda: _parsed(client), 120)
        made = World(cluster, store, airflow, client, home, namespaces, image, (planted, *tokens))
        made.shown_as(declared.ONE)
        yield made


def _parsed(client: AirflowClient) -> bool:
    """Whether every provider's DAG is there; an AssertionError with the reason if a file cannot be imported."""
    errors = client.import_errors()
    assert not errors, "\n".join(f"{file}: {text}" for file, text in errors.items())
    return {p.dag_id for p in load().enabled_providers()} <= client.dags().keys()


def _unlabel(cluster: Cluster) -> None:
    for node in cluster.nodes():
        cluster.label(node["metadata"]["name"], {PRODUCT: None})


def store_connection(store: ObjectStore) -> str:
    """The store as a connection of Airflow's."""
    extra = {"endpoint_url": store.endpoint, "region_name": "us-east-1"}
    return json.dumps({"conn_type": "aws", "login": store.key, "password": store.secret, "extra": json.dumps(extra)})


def _overlay(namespace: str, store: ObjectStore) -> dict[str, Any]:
    """k8s/provider's example overlay for one more namespace; out to this machine's store, whose port is not 443."""
    out = [{"op": "add", "path": "/spec/egress/-", "value": {"ports": [{"protocol": "TCP", "port": store.port}]}}]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [_OVERLAYS],
        "components": ["../../components/serving"],
        "patches": [{"target": {"kind": "NetworkPolicy", "name": "plumbline-result-store"}, "patch": json.dumps(out)}],
    }
