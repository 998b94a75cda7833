"""The fake Kubernetes API is good enough for the real clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes_asyncio import client as async_client
from kubernetes_asyncio import config as async_config
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from urllib3.exceptions import HTTPError

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


def test_a_followed_log_ends_with_the_pod(kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().log("one").after(0.1).log("two").succeeded())
    api = core(kube)
    api.create_namespaced_pod(NS, pod())
    kube.wait_for(lambda: phase(kube, "pl-a-0") == "Running", "the pod runs")
    stream = api.read_namespaced_pod_log("pl-a-0", NS, follow=True, _preload_content=False)
    assert b"".join(stream.stream()) == b"one\ntwo\n"


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


def test_a_quota_refuses_what_is_over_it(kube: FakeKubernetes) -> None:
    kube.quota(NS, **{"requests.nvidia.com/gpu": "8"})
    kube.script("*", Script().unschedulable())
    api = core(kube)
    api.create_namespaced_pod(NS, pod(container={"resources": {"limits": {"nvidia.com/gpu": "4"}}}))
    code, status = refused(
        lambda: api.create_namespaced_pod(NS, pod("pl-b-0", container={"resources": {"limits": {"nvidia.com/gpu": "8"}}}))
    )
    assert code == 403
    for what, number in (("requested", 8), ("used", 4), ("limited", 8)):
        assert f"{what}: requests.nvidia.com/gpu={number}" in status["message"]
    assert api.list_namespaced_resource_quota(NS).items[0].status.used == {"requests.nvidia.com/gpu": "4"}


def test_faults_on_demand_hit_what_they_are_meant_for(kube: FakeKubernetes) -> None:
    api = core(kube)
    kube.answer_next(429, match="GET /api/v1/namespaces/*/pods*", retry_after=0)
    assert api.list_namespaced_event(NS).items == []
    assert api.list_namespaced_pod(NS).items == []
    assert [call.code for call in kube.called("GET */pods*")] == [429, 200]
    kube.answer_next(503, times=2, match="POST *")
    assert refused(lambda: api.create_namespaced_pod(NS, pod()))[0] == 503
    kube.heal()
    kube.answer_next(504, match="POST *", after_work=True)
    assert refused(lambda: api.create_namespaced_pod(NS, pod()))[0] == 504
    assert list(kube.pods()) == ["pl-a-0"]


def test_down_and_up_on_the_same_port(kube: FakeKubernetes) -> None:
    kube.script("*", Script().started())
    api = core(kube)
    api.create_namespaced_pod(NS, pod())
    kube.down()
    with pytest.raises((HTTPError, OSError)):
        api.api_client.rest_client.pool_manager.urlopen("GET", kube.url + "/version", retries=False)
    kube.up()
    kube.wait_for(lambda: api.read_namespaced_pod("pl-a-0", NS).status.phase == "Running", "the pod lived on")


def test_a_slow_api(kube: FakeKubernetes) -> None:
    api = core(kube)
    kube.slow(0.1, match="GET */pods*")
    begin = time.monotonic()
    api.list_namespaced_pod(NS)
    assert time.monotonic() - begin >= 0.1


def test_deleting_a_service_in_the_foreground_takes_its_pods_along(kube: FakeKubernetes) -> None:
    kube.script("pl-a-0", Script().started().stuck())
    kube.script("pl-a-1", Script().started())
    api = core(kube)
    owner = api.create_namespaced_service(NS, {"metadata": {"name": "pl-a"}, "spec": {"clusterIP": "None"}})
    reference = {"apiVersion": "v1", "kind": "Service", "name": "pl-a", "uid": owner.metadata.uid, "blockOwnerDeletion": True}
    for rank in (0, 1):
        row = pod(f"pl-a-{rank}")
        row["metadata"]["ownerReferences"] = [reference]
        api.create_namespaced_pod(NS, row)
    kube.wait_for(lambda: {p["status"]["phase"] for p in kube.pods().values()} == {"Running"}, "both run")
    api.delete_namespaced_service("pl-a", NS, propagation_policy="Foreground")
    kube.wait_for(lambda: "pl-a-1" not in kube.pods(), "the pod that can end is gone")
    assert kube.leftovers() == ["pods/pl-a-0", "services/pl-a"]
    assert kube.pods()["pl-a-0"]["metadata"]["deletionTimestamp"]
    api.delete_namespaced_pod("pl-a-0", NS, grace_period_seconds=0)
    assert kube.leftovers() == []


@pytest.mark.parametrize(
    ("script", "reason", "there"),
    [
        (Script().oom_killed(), None, True),
        (Script().evicted(), "Evicted", True),
        (Script().deadline_exceeded(), "DeadlineExceeded", True),
        (Script().node_shutdown(), "Terminated", True),
        (Script().preempted(), None, False),
        (Script().tainted(), None, False),
        (Script().vanishes(), None, False),
    ],
)
def test_what_can_befall_a_running_pod(kube: FakeKubernetes, script: Script, reason: str | None, there: bool) -> None:
    kube.script("*", Script().started())
    api = core(kube)
    api.create_namespaced_pod(NS, pod())
    kube.wait_for(lambda: phase(kube, "pl-a-0") == "Running", "it runs")
    kube.become("pl-*", script)
    if not there:
        kube.wait_for(lambda: not kube.pods(), "it is gone")
        return
    kube.wait_for(lambda: phase(kube, "pl-a-0") == "Failed", "it failed")
    assert api.read_namespaced_pod("pl-a-0", NS).status.reason == reason


def test_a_pods_process_may_be_python(kube: FakeKubernetes) -> None:
    def harness(run: PodRun) -> int:
        run.say(f"I am {run.pod['metadata']['name']}")
        return 3

    def broken(run: PodRun) -> int:
        raise RuntimeError("oh")

    kube.script("pl-a-*", Script().started().runs(harness))
    kube.script("pl-b-*", Script().started().runs(broken))
    api = core(kube)
    for name in ("pl-a-0", "pl-b-0"):
        api.create_namespaced_pod(NS, pod(name))
        kube.wait_for(lambda name=name: phase(kube, name) == "Failed", "it ends")
    codes = {p.metadata.name: p.status.container_statuses[0].state.terminated.exit_code for p in api.list_namespaced_pod(NS).items}
    assert codes == {"pl-a-0": 3, "pl-b-0": 1}
    assert "RuntimeError: oh" in log(api, "pl-b-0")


def test_eviction_by_the_api_deletes(kube: FakeKubernetes) -> None:
    kube.script("*", Script().started())
    api = core(kube)
    api.create_namespaced_pod(NS, pod())
    kube.wait_for(lambda: phase(kube, "pl-a-0") == "Running", "it runs")
    api.create_namespaced_pod_eviction("pl-a-0", NS, client.V1Eviction(metadata=client.V1ObjectMeta(name="pl-a-0", namespace=NS)))
    kube.wait_for(lambda: not kube.pods(), "it is gone")


def test_custom_objects_make_pods_and_take_them_along(kube: FakeKubernetes) -> None:
    group, version, plural = "jobset.x-k8s.io", "v1alpha2", "jobsets"
    kube.script("*", Script().started())
    custom = client.CustomObjectsApi(core(kube).api_client)
    job = {"parallelism": 2, "template": {"metadata": {"labels": {"plumbline/launch": "pl-a"}}, "spec": pod()["spec"]}}
    spec = {"replicatedJobs": [{"name": "trial", "template": {"spec": job}}]}
    body = {"apiVersion": f"{group}/{version}", "metadata": {"name": "pl-a"}, "spec": spec}
    custom.create_namespaced_custom_object(group, version, NS, plural, body)
    pods = core(kube).list_namespaced_pod(NS, label_selector="plumbline/launch=pl-a").items
    assert [p.metadata.labels["batch.kubernetes.io/job-completion-index"] for p in pods] == ["0", "1"]
    custom.delete_namespaced_custom_object(group, version, NS, plural, "pl-a", propagation_policy="Foreground")
    kube.wait_for(lambda: kube.leftovers() == [], "everything is gone")
    kube.absent.add(group)
    with pytest.raises(client.ApiException) as error:
        custom.create_namespaced_custom_object(group, version, NS, plural, body)
    assert error.value.status == 404


def test_access_reviews_say_what_is_forbidden(kube: FakeKubernetes) -> None:
    kube.forbidden.add(("get", "pods/log"))
    api = client.AuthorizationV1Api(core(kube).api_client)

    def allowed(verb: str, resource: str, sub: str | None = None) -> bool:
        attributes = {"namespace": NS, "verb": verb, "resource": resource, "subresource": sub}
        return bool(api.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}}).status.allowed)

    assert allowed("get", "pods")
    assert not allowed("get", "pods", "log")


def test_version_nodes_and_namespaces(kube: FakeKubernetes) -> None:
    api = core(kube)
    assert client.VersionApi(api.api_client).get_code().minor == "31"
    assert api.list_node(label_selector="nvidia.com/gpu.product").items[0].metadata.name == "node-1"
    assert api.read_namespace(NS).status.phase == "Active"
    assert refused(lambda: api.read_namespace("nowhere"))[0] == 404


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
