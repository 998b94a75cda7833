"""What outlived its launch goes; what is wanted, what is somebody else's and what says no time stays."""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.declarations import KubernetesLauncher
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.manifests.gang import jobset_manifest
from plumbline.launch.cluster.manifests.trial_pod import signing_key_secret
from plumbline.launch.cluster.operate.sweep import sweep_expired
from plumbline.launch.failures import ApiRefused, Unreachable
from plumbline.results import signing

NS, NOW = "plumbline", 1_800_000_000.0
PAST, FUTURE = str(int(NOW - 60)), str(int(NOW + 60))
PLURALS = {"Pod": "pods", "Service": "services", "Job": "jobs", "JobSet": "jobsets", "Secret": "secrets"}


def row(kind: str, name: str, expires: str | None, *, managed_by: str | None = "plumbline") -> dict[str, Any]:
    labels = {"plumbline/launch": name, **({} if managed_by is None else {"app.kubernetes.io/managed-by": managed_by})}
    annotations = {} if expires is None else {"plumbline/expires": expires}
    spec = {"containers": [{"name": "harness", "image": "x"}]} if kind == "Pod" else {}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def launcher(**settings: Any) -> KubernetesLauncher:
    found = cluster_provider(**settings).launcher
    assert isinstance(found, KubernetesLauncher)
    return found


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Any:
    with FakeKubernetes(("plumbline", "neighbours")) as fake:
        fake.script("*", Script().started())
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", fake.connection_json(NS))
        yield fake


def plant(kube: FakeKubernetes, kind: str, name: str, expires: str | None, namespace: str = NS, **about: Any) -> None:
    kube.store.create(PLURALS[kind], namespace, row(kind, name, expires, **about))


def names(kube: FakeKubernetes, kind: str, namespace: str = NS) -> set[str]:
    """What is there and is not on its way out."""
    rows = kube.store.list(PLURALS[kind], namespace)
    return {each["metadata"]["name"] for each in rows if "deletionTimestamp" not in each["metadata"]}


@pytest.mark.parametrize("kind", ["Pod", "Service", "Job", "Secret"])
def test_only_what_is_ours_and_outlived_its_launch_is_deleted(kube: FakeKubernetes, kind: str) -> None:
    plant(kube, kind, "orphan", PAST)
    plant(kube, kind, "wanted", FUTURE)
    plant(kube, kind, "timeless", None)
    plant(kube, kind, "misspelt", "yesterday")
    plant(kube, kind, "a-neighbours", PAST, managed_by="helm")
    plant(kube, kind, "unlabelled", PAST, managed_by=None)
    plant(kube, kind, "elsewhere", PAST, namespace="neighbours")
    kube.store.put("configmaps", {"metadata": {**row("Pod", "settings", PAST)["metadata"], "namespace": NS}})
    assert sweep_expired(launcher(), NOW) == [f"{kind} orphan"]
    assert names(kube, kind) == {"wanted", "timeless", "misspelt", "a-neighbours", "unlabelled"}
    assert names(kube, kind, "neighbours") == {"elsewhere"}
    assert [r["metadata"]["name"] for r in kube.store.list("configmaps", NS)] == ["settings"]
    assert {call.path.rpartition("/")[2] for call in kube.called("DELETE *")} == {"orphan"}
    assert sweep_expired(launcher(), NOW) == []


def test_what_is_on_its_way_out_is_left_to_its_end(kube: FakeKubernetes) -> None:
    kube.termination_s = 60.0
    plant(kube, "Pod", "ending", PAST)
    kube.wait_for(lambda: kube.pods()["ending"]["status"].get("containerStatuses"), "the pod runs")
    ClusterApi("k8s_a", NS).delete("Pod", "ending")
    assert sweep_expired(launcher(), NOW) == []
    assert len(kube.called("DELETE *")) == 1


def test_an_owner_takes_along_what_it_owns(kube: FakeKubernetes) -> None:
    plant(kube, "Service", "old-gang", PAST)
    owner = kube.store.list("services", NS)[0]
    member = row("Pod", "old-gang-0", PAST)
    member["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service", "name": "old-gang", "uid": owner["metadata"]["uid"]}]
    kube.store.create("pods", NS, member)
    plant(kube, "Service", "new-gang", FUTURE)
    assert sweep_expired(launcher(), NOW)[0] == "Service old-gang"
    kube.wait_for(lambda: names(kube, "Pod") == set() and names(kube, "Service") == {"new-gang"}, "the gang is gone")


@pytest.mark.parametrize("gang", ["pods", "jobset"])
def test_gangs_of_every_kind_are_swept_whatever_is_declared_now(kube: FakeKubernetes, gang: str) -> None:
    kube.store.put("jobsets", {"metadata": {**row("JobSet", "old", PAST)["metadata"], "namespace": NS}})
    kube.store.put("jobsets", {"metadata": {**row("JobSet", "young", FUTURE)["metadata"], "namespace": NS}})
    assert sweep_expired(launcher(gang=gang), NOW) == ["JobSet old"]
    assert names(kube, "JobSet") == {"young"}


def test_the_job_of_a_jobset_that_was_deleted_without_it_is_found(kube: FakeKubernetes) -> None:
    trial = a_trial(provider=cluster_provider(gang="jobset"), declare={"name": "gang", "parallelism": {"nodes": 2}})
    made = jobset_manifest(trial, requested_at=datetime.fromtimestamp(NOW - 86400, timezone.utc))
    api = ClusterApi("k8s_a", NS)
    api.create(made)
    kube.store.delete("jobsets", NS, made["metadata"]["name"], propagation="Orphan")
    assert len(names(kube, "Job")) == 1
    assert sweep_expired(launcher(), NOW - 86400) == []
    assert sweep_expired(launcher(), NOW)[0].startswith("Job ")
    kube.wait_for(lambda: names(kube, "Job") == names(kube, "Pod") == set(), "the Job is gone with its pods")


def test_a_kind_that_the_cluster_does_not_have_matters_only_where_it_is_declared(kube: FakeKubernetes) -> None:
    kube.absent = {"jobset.x-k8s.io"}
    plant(kube, "Pod", "orphan", PAST)
    assert sweep_expired(launcher(), NOW) == ["Pod orphan"]
    with pytest.raises(ApiRefused, match="list JobSet"):
        sweep_expired(launcher(gang="jobset"), NOW)


def test_a_refusal_is_told_after_everything_else_was_swept(kube: FakeKubernetes) -> None:
    kube.forbidden = {("list", "services"), ("delete", "jobs.batch")}
    plant(kube, "Job", "kept", PAST)
    plant(kube, "Pod", "orphan", PAST)
    with pytest.raises(ApiRefused) as refusal:
        sweep_expired(launcher(), NOW)
    assert refusal.value.status == 403
    assert all(part in refusal.value.detail for part in ("list Service: ", "delete Job kept: ", "Pod orphan"))
    assert (names(kube, "Job"), names(kube, "Pod")) == ({"kept"}, set())


def test_another_object_of_the_same_name_is_not_deleted(kube: FakeKubernetes) -> None:
    plant(kube, "Pod", "again", FUTURE)
    api = ClusterApi("k8s_a", NS, patience_s=5.0)
    assert not api.delete_exactly("Pod", "again", "the-uid-of-one-that-is-gone")
    assert not api.delete_exactly("Pod", "never", "x")
    assert len(kube.called("DELETE */again")) == 1, "asking again would not change it"
    assert names(kube, "Pod") == {"again"}
    assert api.delete_exactly("Pod", "again", kube.pods()["again"]["metadata"]["uid"])


def test_a_cluster_that_does_not_answer_is_told(kube: FakeKubernetes) -> None:
    kube.down()
    with pytest.raises(Unreachable, match="cluster doctor"):
        sweep_expired(launcher(), NOW, patience_s=0.5)


def test_a_secret_replaces_one_of_its_name_and_its_value_is_never_read_back(kube: FakeKubernetes) -> None:
    api, trial = ClusterApi("k8s_a", NS), a_trial(provider=cluster_provider())
    for key in (first := signing.KeyPair.generate(), second := signing.KeyPair.generate()):
        api.create_secret(signing_key_secret(trial, key, datetime.fromtimestamp(NOW, timezone.utc)))
    (held,) = kube.store.list("secrets", NS)
    assert base64.b64decode(held["data"][signing.KEY_VARIABLE]).decode() == second.private_hex != first.private_hex
    (seen,) = api.listed("Secret", "app.kubernetes.io/managed-by=plumbline")
    assert "data" not in seen and seen["metadata"]["name"] == held["metadata"]["name"]
    api.delete("Secret", held["metadata"]["name"])
    assert kube.store.list("secrets", NS) == []
