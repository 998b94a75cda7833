"""The worker's side of the cluster's API, against a real HTTP server that misbehaves on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script

from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.failures import ApiRefused, BadDeclaration, Unreachable

NS = "plumbline"
SELECTOR = "plumbline/launch=pl-a"


def pod(name: str = "pl-a-0", launch: str = "pl-a") -> dict[str, Any]:
    container = {"name": "harness", "image": "example.com/harness:1"}
    metadata = {"name": name, "labels": {"plumbline/launch": launch, "plumbline/rank": "0"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        running.script("*", Script().started())
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json(NS))
        yield running


@pytest.fixture
def api(kube: FakeKubernetes) -> ClusterApi:
    return ClusterApi("k8s_a", NS, patience_s=30.0, timeout_s=30.0)


def test_rows_go_in_and_come_out_as_they_are(kube: FakeKubernetes, api: ClusterApi) -> None:
    asked = pod()
    asked["spec"]["fieldOfANewerVersion"] = {"kept": True}
    made = api.create(asked)
    assert made["metadata"]["uid"]
    found = api.get("Pod", "pl-a-0")
    assert found is not None and found["spec"]["fieldOfANewerVersion"] == {"kept": True}
    assert [row["metadata"]["name"] for row in api.pods(SELECTOR)] == ["pl-a-0"]
    assert api.pods("plumbline/launch=pl-b") == []
    assert api.get("Pod", "pl-b-0") is None and api.get("Service", "pl-a") is None


def test_what_exists_is_adopted_only_if_it_is_ours(kube: FakeKubernetes, api: ClusterApi) -> None:
    first = api.create(pod())
    assert api.create(pod())["metadata"]["uid"] == first["metadata"]["uid"]
    with pytest.raises(ApiRefused, match="Pod pl-a-0") as refusal:
        api.create(pod(launch="pl-b"))
    assert refusal.value.status == 409


def test_a_creation_whose_answer_was_lost_is_met_again(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.answer_next(504, match="POST *", after_work=True)
    assert api.create(pod())["metadata"]["name"] == "pl-a-0"
    assert len(kube.pods()) == 1


@pytest.mark.parametrize("code", [410, 429, 500, 503])
def test_a_bad_moment_is_waited_out(kube: FakeKubernetes, api: ClusterApi, code: int) -> None:
    kube.answer_next(code, times=2, match="GET *")
    assert api.pods(SELECTOR) == []
    assert [call.code for call in kube.called("GET */pods*")] == [code, code, 200]


def test_a_quota_that_two_requests_change_at_once_is_asked_again(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.answer_next(409, match="POST *", message="Operation cannot be fulfilled on resourcequotas: the object has been modified")
    api.create(pod())
    assert [call.code for call in kube.called("* /api/v1/namespaces/plumbline/pods*")] == [409, 201]
    assert list(kube.pods()) == ["pl-a-0"]


def test_retry_after_is_honoured_and_does_not_outlast_patience(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.answer_next(429, match="GET *", retry_after=1)
    assert api.pods(SELECTOR) == []
    kube.answer_next(429, match="GET *", retry_after=3600)
    with pytest.raises(Unreachable, match=r"k8s_a.*/pods.*HTTP 429"):
        ClusterApi("k8s_a", NS, patience_s=2.0, timeout_s=30.0).pods(SELECTOR)


def test_a_cluster_that_stays_away_is_unreachable(kube: FakeKubernetes) -> None:
    kube.down()
    with pytest.raises(Unreachable, match=r"`plumbline cluster doctor`"):
        ClusterApi("k8s_a", NS, patience_s=0.5).pods(SELECTOR)


def test_a_cluster_that_comes_back_is_not(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.answer_next(503, times=1, match="GET *", cut=True)
    assert api.pods(SELECTOR) == []


def test_an_answer_that_takes_too_long_is_none(kube: FakeKubernetes) -> None:
    kube.slow(5.0, match="GET *")
    with pytest.raises(Unreachable, match="Timeout"):
        ClusterApi("k8s_a", NS, patience_s=0.3, timeout_s=0.2).pods(SELECTOR)


def test_rotated_credentials_are_read_again(kube: FakeKubernetes, api: ClusterApi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.pods(SELECTOR) == []
    kube.token = "rotated"
    monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(NS))
    assert api.pods(SELECTOR) == []


def test_credentials_that_stay_wrong_are_refused(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.token = "rotated"
    with pytest.raises(ApiRefused) as refusal:
        api.pods(SELECTOR)
    assert refusal.value.status == 401
    assert len(kube.called("GET */pods*")) == 2


def test_a_refusal_comes_with_the_apis_own_words(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.quota(NS, pods="0")
    with pytest.raises(ApiRefused, match="exceeded quota") as refusal:
        api.create(pod())
    assert refusal.value.status == 403
    with pytest.raises(ApiRefused, match='namespaces "nowhere"') as missing:
        ClusterApi("k8s_a", "nowhere").create(pod())
    assert missing.value.status == 404
    with pytest.raises(ApiRefused) as invalid:
        api.create({**pod("pl-b-0"), "spec": {"containers": []}})
    assert invalid.value.status == 422


def test_events_nodes_and_logs(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.script("*", Script().started().log(*(f"line {number}" for number in range(100))).succeeded())
    api.create(pod())
    kube.wait_for(lambda: kube.pods()["pl-a-0"]["status"]["phase"] == "Succeeded", "the pod ends")
    assert [event["reason"] for event in api.events(["pl-a-0", "pl-a-1"])][:2] == ["Scheduled", "Pulling"]
    node = api.node("node-1")
    assert node is not None and node["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"
    assert api.node("node-2") is None
    assert api.log("pl-a-0", "harness", 10**6).startswith(b"line 0\n")
    assert api.log("pl-a-0", "harness", 256) == b"line 96\nline 97\nline 98\nline 99\n"
    assert api.log("pl-b-0", "harness", 8) == b""


def test_a_container_that_never_started_has_an_empty_log(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.script("*", Script().unschedulable())
    api.create(pod())
    assert api.log("pl-a-0", "harness", 10**6) == b""


def test_everything_of_a_launch_is_removed_and_nothing_else(kube: FakeKubernetes, api: ClusterApi) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "pl-a", "labels": {"plumbline/launch": "pl-a"}},
        "spec": {"clusterIP": "None"},
    }
    owner = api.create(service)
    for rank in range(3):
        api.create(pod(f"pl-a-{rank}"))
    api.create(pod("pl-b-0", launch="pl-b"))
    assert api.remove(owner, SELECTOR, wait_s=10.0) == []
    assert kube.leftovers() == ["pods/pl-b-0"]
    assert api.remove(owner, SELECTOR, wait_s=10.0) == []


def test_what_does_not_go_is_named(kube: FakeKubernetes, api: ClusterApi) -> None:
    kube.script("*", Script().started().stuck())
    api.create(pod())
    kube.wait_for(lambda: kube.runs[NS, "pl-a-0"].stuck, "the pod is stuck")
    (left,) = api.remove(None, SELECTOR, wait_s=0.0)
    assert left.startswith("Pod pl-a-0 ") and kube.pods()["pl-a-0"]["metadata"]["deletionTimestamp"] in left


def test_a_connection_that_gives_no_access_says_what_to_do(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadDeclaration, match=r"k8s_nobody.*plumbline cluster kubeconfig"):
        ClusterApi("k8s_nobody", NS).pods(SELECTOR)
    broken = {"kube_config": "users: [{name: a, user: {token: 'very-secret'}", "namespace": NS}
    monkeypatch.setenv("AIRFLOW_CONN_K8S_BROKEN", json.dumps({"conn_type": "kubernetes", "extra": broken}))
    with pytest.raises(BadDeclaration, match="k8s_broken") as failure:
        ClusterApi("k8s_broken", NS).pods(SELECTOR)
    assert "very-secret" not in str(failure.value) and failure.value.__cause__ is None
    both = {"kube_config": json.dumps(kube.kubeconfig()), "in_cluster": True}
    monkeypatch.setenv("AIRFLOW_CONN_K8S_BOTH", json.dumps({"conn_type": "kubernetes", "extra": both}))
    with pytest.raises(BadDeclaration, match="mutually exclusive"):
        ClusterApi("k8s_both", NS).pods(SELECTOR)
