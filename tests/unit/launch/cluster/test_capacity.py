"""A node asked for between campaigns, on a cluster that answers over HTTP: the time to it, whose fault a miss is, and what stays behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script
from tests.fakes.trials import H100, a_trial, cluster_provider, declared

from plumbline.analysis.availability import whose_fault
from plumbline.declarations import Provider
from plumbline.launch.cluster import launcher
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.launcher import ask_cluster
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import cluster_declaration
from plumbline.launch.cluster.short_pod import PodPatience
from plumbline.launch.failures import ApiRefused, InMaintenance, TrialFailure

QUICK = PodPatience(node_s=0.3, start_s=1.0, trouble_s=0.1, gone_s=2.0, poll_s=0.02)
CORDONED = "0/2 nodes are available: 2 node(s) were unschedulable."


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json())
        yield running


def watched(accelerator: dict[str, Any] = H100, *, operated_by: str = "provider", **capacity: Any) -> Provider:
    data = json.loads(cluster_provider(accelerator=accelerator, operated_by=operated_by).model_dump_json())
    return Provider.model_validate_json(json.dumps(data | {"watch": {"capacity": {"every": "6h", **capacity}}}))


def ask(provider: Provider) -> float | None:
    return ask_cluster(declared(), provider, cluster_declaration(provider), datetime.now(timezone.utc), QUICK)


def missed(provider: Provider) -> str:
    with pytest.raises(TrialFailure) as failure:
        ask(provider)
    return str(failure.value.failure_class)


def test_a_pod_with_the_asked_gpus_ends_at_once_and_is_gone(kube: FakeKubernetes) -> None:
    kube.script("pl-capacity-*", Script().started().succeeded())
    seconds = ask(watched(gpus=4))
    assert seconds is not None and seconds >= 0
    (made,) = [c for c in kube.called("POST */pods") if not c.query]
    container = made.body["spec"]["containers"][0]
    assert container["command"] == ["python", "-c", ""] and container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert kube.leftovers() == []


@pytest.mark.parametrize(
    ("script", "cause", "whose"),
    [
        (Script().unschedulable(), "insufficient_capacity", "provider"),
        (Script().unschedulable(CORDONED), "insufficient_capacity", "provider"),
        (Script().scheduled().image_pull_fails(), "image_error", "operator"),
    ],
)
def test_a_miss_has_an_owner_and_leaves_nothing(kube: FakeKubernetes, script: Script, cause: str, whose: str) -> None:
    kube.script("pl-capacity-*", script)
    assert missed(watched()) == cause
    assert whose_fault(cause) == whose
    assert kube.leftovers() == []


def test_full_and_closed_nodes_of_a_cluster_of_ours_are_not_the_providers(kube: FakeKubernetes) -> None:
    kube.script("pl-capacity-*", Script().unschedulable())
    assert whose_fault(missed(watched(operated_by="us"))) == "unproven"
    kube.script("pl-capacity-*", Script().unschedulable(CORDONED))
    with pytest.raises(InMaintenance):
        ask(watched(operated_by="us"))
    assert kube.leftovers() == []


@pytest.mark.parametrize("operated_by", ["us", "provider"])
def test_nodes_that_our_own_trials_hold_are_no_shortage(operated_by: str, kube: FakeKubernetes) -> None:
    provider = watched(operated_by=operated_by)
    kube.script("pl-*", Script().started())
    ClusterApi("k8s_a", "plumbline").create(pod_manifest(a_trial(provider=cluster_provider()), requested_at=datetime.now(timezone.utc)))
    kube.script("pl-capacity-*", Script().unschedulable())
    assert whose_fault(missed(provider)) == "operator"


@pytest.mark.fault("a capacity check is killed before it deletes its pod", ends="the next check deletes it", keeps="the time to a node")
def test_what_a_killed_check_left_is_deleted_by_the_next(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-capacity-*", Script().started())

    def killed(api: ClusterApi, pod: dict[str, Any], *_: Any) -> None:
        api.create(pod)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(launcher, "run_short_pod", killed)
        ask(watched())
    assert len(kube.leftovers()) == 1
    kube.script("pl-capacity-*", Script().started().succeeded())
    assert ask(watched()) is not None
    assert kube.leftovers() == []


def test_a_dry_run_creates_nothing(kube: FakeKubernetes) -> None:
    assert ask(watched(dry_run=True)) is None
    kube.forbidden.add(("create", "pods"))
    with pytest.raises(ApiRefused):
        ask(watched(dry_run=True))
    assert [c for c in kube.called("POST */pods") if not c.query] == [] and kube.called("POST */pods")
    assert kube.leftovers() == []


NODE = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
UPGRADE, LAYOUT = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/mig.config.state"
XID = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}


@pytest.mark.parametrize(
    ("labels", "cordoned", "condition", "ours", "theirs"),
    [
        ({}, False, None, None, None),
        ({}, False, XID, "provider_fault", "provider_fault"),
        ({}, False, {"type": "GPUMissing", "status": "True"}, "provider_fault", "provider_fault"),
        ({}, False, {"type": "GPUMissing", "status": "False"}, None, None),
        ({}, False, {"type": "VMEventScheduled", "status": "True"}, None, None),
        ({}, False, {"type": "StorageReady", "status": "False"}, "launch_timeout", "insufficient_capacity"),
        ({}, True, None, "maintenance", "insufficient_capacity"),
        ({UPGRADE: "drain-required"}, True, None, "maintenance", "insufficient_capacity"),
        ({UPGRADE: "upgrade-failed"}, True, None, "bad_declaration", "insufficient_capacity"),
        ({LAYOUT: "pending"}, False, None, "maintenance", "insufficient_capacity"),
        ({LAYOUT: "failed"}, False, None, "bad_declaration", "insufficient_capacity"),
    ],
)
def test_a_dry_run_says_whose_it_is_that_no_node_is_ready(
    labels: dict[str, str],
    cordoned: bool,
    condition: dict[str, str] | None,
    ours: str | None,
    theirs: str | None,
    kube: FakeKubernetes,
) -> None:
    row = kube.node("node-1", labels=NODE | labels)
    row["spec"]["unschedulable"] = cordoned
    if condition:
        row["status"]["conditions"].append(condition)
    kube.put("nodes", "", row)
    for operated_by, expected in (("us", ours), ("provider", theirs)):
        assert dry_run(operated_by) == expected


def test_a_sick_node_beside_one_that_we_closed_proves_nothing(kube: FakeKubernetes) -> None:
    for name in ("node-1", "b"):
        row = kube.node(name, labels=NODE)
        row["spec"]["unschedulable"] = name == "b"
        row["status"]["conditions"] = [*row["status"]["conditions"], *([XID] if name == "node-1" else [])]
        kube.put("nodes", "", row)
    assert dry_run("us") == "launch_timeout"


def test_a_dry_run_asks_for_free_room(kube: FakeKubernetes) -> None:
    kube.node("node-1", labels=NODE)
    assert dry_run("us") is None
    held = {"containers": [{"name": "s", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "8"}}}], "nodeName": "node-1"}
    kube.put("pods", "plumbline", {"metadata": {"name": "other", "namespace": "plumbline"}, "spec": held, "status": {"phase": "Running"}})
    assert (dry_run("us"), dry_run("provider")) == ("launch_timeout", "insufficient_capacity")


def dry_run(operated_by: str) -> str | None:
    try:
        ask(watched(operated_by=operated_by, dry_run=True))
    except InMaintenance:
        return "maintenance"
    except TrialFailure as failure:
        return failure.failure_class
    return None
