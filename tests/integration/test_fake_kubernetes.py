"""The fake Kubernetes API is good enough for the real clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes_asyncio import client as async_client
from kubernetes_asyncio import config as async_config
from tests.fakes.fake_kubernetes import FakeKubernetes, Script

NS = "plumbline"


def pod(name: str = "pl-a-0", **spec: Any) -> dict[str, Any]:
    container = {"name": "harness", "image": "example.com/harness:1", **spec.pop("container", {})}
    labels = {"plumbline/launch": name.rpartition("-")[0]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {"containers": [container], **spec}}


@pytest.fixture
def kube() -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        yield running


def core(kube: FakeKubernetes) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config_dict(kube.kubeconfig(), persist_config=False))


def log(api: client.CoreV1Api, name: str, **asked: Any) -> str:
    return str(api.read_namespaced_pod_log(name, NS, _preload_content=False, **asked).data.decode())


def phase(kube: FakeKubernetes, name: str) -> str:
    return str(kube.pods()[name]["status"]["phase"])


def refused(call: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(client.ApiException) as error:
        call()
    return error.value.status, json.loads(error.value.body)


def test_a_pods_whole_life_through_the_synchronous_client(kube: FakeKubernetes) -> None:
    kube.script("pl-*", Script().started().log("one", "two", "three").succeeded())
    api = core(kube)
    created = api.create_namespaced_pod(NS, pod())
    assert created.metadata.uid and created.status.phase == "Pending"
    kube.wait_for(lambda: phase(kube, "pl-a-0") == "Succeeded", "the pod succeeds")
    (found,) = api.list_namespaced_pod(NS, label_selector="plumbline/launch=pl-a,plumbline/launch in (pl-a, pl-b),!other").items
    assert found.status.container_statuses[0].state.terminated.exit_code == 0
    assert found.spec.node_name == "node-1"
    assert log(api, "pl-a-0", tail_lines=2) == "two\nthree\n"
    assert log(api, "pl-a-0", timestamps=True).splitlines()[0].endswith("Z one")
    events = api.list_namespaced_event(NS, field_selector="involvedObject.name=pl-a-0").items
    assert [event.reason for event in events] == ["Scheduled", "Pulling", "Pulled", "Created", "Started"]
    api.delete_namespaced_pod("pl-a-0", NS)
    code, status = refused(lambda: api.read_namespaced_pod("pl-a-0", NS))
    assert (code, status["reason"]) == (404, "NotFound")
    assert '"pl-a-0"' in status["message"]
    assert kube.leftovers() == []


async def test_the_same_through_the_asynchronous_client(kube: FakeKubernetes) -> None:
    kube.script("pl-*", Script().started().log("hello").succeeded())
    configuration = async_client.Configuration()
    await async_config.load_kube_config_from_dict(kube.kubeconfig(), client_configuration=configuration)
    async with async_client.ApiClient(configuration) as http:
        api = async_client.CoreV1Api(http)
        await api.create_namespaced_pod(NS, pod())
        while (await api.read_namespaced_pod("pl-a-0", NS)).status.phase != "Succeeded":
            await asyncio.sleep(0.01)
        assert [row.metadata.name for row in (await api.list_namespaced_pod(NS, label_selector="plumbline/launch")).items] == ["pl-a-0"]
        assert await api.read_namespaced_pod_log("pl-a-0", NS) == "hello\n"
        await api.delete_namespaced_pod("pl-a-0", NS)
    assert kube.leftovers() == []


def test_errors_are_status_objects(kube: FakeKubernetes) -> None:
    api = core(kube)
    kube.script("*", Script().unschedulable())
    api.create_namespaced_pod(NS, pod())
    assert refused(lambda: api.create_namespaced_pod(NS, pod()))[1]["reason"] == "AlreadyExists"
    assert refused(lambda: api.create_namespaced_pod("nowhere", pod()))[1]["reason"] == "NotFound"
    assert refused(lambda: api.create_namespaced_pod(NS, pod("pl-b-0", containers=[])))[0] == 422
    assert refused(lambda: api.read_namespaced_pod_log("pl-a-0", NS))[1]["message"].endswith(": ContainerCreating")
    kube.token = "another"
    assert refused(lambda: api.list_namespaced_pod(NS))[0] == 401
    api = core(kube)
    kube.forbidden.add(("list", "pods"))
    assert refused(lambda: api.list_namespaced_pod(NS))[1]["reason"] == "Forbidden"
    assert api.read_namespaced_pod("pl-a-0", NS).status.phase == "Pending"


def test_an_unchanged_operator_of_airflow_runs_on_it(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_K8S_FAKE", kube.connection_json())
    kube.script("*", Script().started().log("hello").after(0.1).succeeded())
    operator = KubernetesPodOperator(
        task_id="t", name="unchanged", namespace=NS, image="x:1", kubernetes_conn_id="k8s_fake", random_name_suffix=False
    )
    told: dict[str, str] = {}

    def push(key: str, value: str) -> None:
        told[key] = value

    task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, map_index=-1, dag_run=None, xcom_push=push)
    operator.execute({"ti": task, "task_instance": task, "run_id": "r", "dag": SimpleNamespace(dag_id="d", parent_dag=None)})
    assert [call.code for call in kube.called("DELETE */pods/unchanged")] == [200]
    assert told == {"pod_name": "unchanged", "pod_namespace": NS}
    assert kube.leftovers() == []
