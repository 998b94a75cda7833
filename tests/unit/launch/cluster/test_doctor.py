"""The doctor's pure parts: each check in a case in which it fires, and in one in which it does not."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration
from tests.fakes.trials import cluster_provider, serving
from tests.golden import Golden

from plumbline.declarations import KubernetesLauncher
from plumbline.declarations.installation import REPOSITORY
from plumbline.launch.cluster.doctor.credentials import credential_lifetime
from plumbline.launch.cluster.doctor.doctor import _most_demanding, with_most
from plumbline.launch.cluster.doctor.permissions import Permission, compare_permissions, granted_permissions, required_permissions
from plumbline.launch.cluster.observe import node_room
from plumbline.launch.doctor_check import DoctorCheck

NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
K8S = REPOSITORY / "k8s" / "provider"
Row = dict[str, Any]


def launcher(**settings: Any) -> KubernetesLauncher:
    found = cluster_provider(**settings).launcher
    assert isinstance(found, KubernetesLauncher)
    return found


def statuses(lines: list[DoctorCheck]) -> list[str]:
    return [line.status for line in lines]


# Permissions.


def rules(file: Path) -> list[Row]:
    documents = [d for d in yaml.safe_load_all(file.read_text()) if d["kind"] in ("Role", "ClusterRole")]
    return [rule for document in documents for rule in document["rules"]]


def component(name: str) -> list[Row]:
    patches = yaml.safe_load((K8S / "components" / name / "kustomization.yaml").read_text())["patches"]
    return [op["value"] for patch in patches for op in yaml.safe_load(patch["patch"])]


BASE = rules(K8S / "base" / "launcher-role.yaml") + rules(K8S / "base" / "launcher-cluster-role.yaml")


@pytest.mark.parametrize(
    ("settings", "components"),
    [({}, []), ({"queue": "plumbline"}, ["kueue"]), ({"gang": "jobset"}, ["jobset"]), ({"serving": serving()}, ["serving"])],
)
def test_the_shipped_roles_grant_what_is_needed_and_nothing_more(settings: Row, components: list[str]) -> None:
    granted = granted_permissions(BASE + [rule for name in components for rule in component(name)])
    assert granted == required_permissions(launcher(**settings))


def test_a_missing_verb_and_a_verb_too_many_are_both_told() -> None:
    needed = required_permissions(launcher())
    has = (needed - {Permission("", "pods/log", "get")}) | {Permission("", "configmaps", "list")}
    missing, surplus = compare_permissions(has, needed, "plumbline")
    assert missing.status == "failed" and missing.found.endswith(": get pods/log") and "k8s/provider" in missing.remedy
    assert surplus.status == "failed" and "list configmaps" in surplus.found and "kubeconfig" in surplus.remedy
    assert statuses(compare_permissions(needed, needed, "plumbline")) == ["ok", "ok"]


def test_an_administrator_lacks_nothing_and_has_too_much() -> None:
    has = granted_permissions([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    assert statuses(compare_permissions(has, required_permissions(launcher()), "plumbline")) == ["ok", "failed"]


def test_a_rule_for_single_names_does_not_grant_the_verb() -> None:
    one = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"], "resourceNames": ["mine"]}
    assert granted_permissions([one]) == frozenset()


def test_what_everybody_may_ask_is_no_verb_too_many() -> None:
    everybody = {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"], "verbs": ["create"]}
    assert statuses(compare_permissions(granted_permissions([*BASE, everybody]), required_permissions(launcher()), "x")) == ["ok", "ok"]


# Credentials.


def token(**claims: Any) -> Configuration:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    made = Configuration()
    made.api_key = {"BearerToken": f"Bearer e30.{payload}.c2ln"}
    return made


@pytest.mark.parametrize(
    ("configuration", "renewed", "status", "value"),
    [
        (token(sub="me", exp=(NOW + timedelta(days=60)).timestamp()), False, "ok", "2026-12-31"),
        (token(exp=(NOW + timedelta(days=3)).timestamp()), False, "failed", "3 days"),
        (token(exp=(NOW + timedelta(hours=5)).timestamp()), False, "failed", "5 h"),
        (token(exp=(NOW + timedelta(hours=5)).timestamp()), True, "ok", "renewed"),
        (token(sub="me"), False, "ok", "as me"),
        (Configuration(), False, "unknown", "certificate"),
    ],
)
def test_how_long_credentials_will_do(configuration: Configuration, renewed: bool, status: str, value: str) -> None:
    line = credential_lifetime(configuration, NOW, renewed=renewed)
    assert line.status == status and value in line.found
    assert bool(line.remedy) == (status != "ok")


def test_a_token_that_is_no_jwt_is_not_taken_apart() -> None:
    opaque = Configuration()
    opaque.api_key = {"BearerToken": "Bearer k3s.opaque.%%%"}
    assert credential_lifetime(opaque, NOW, renewed=False).status == "ok"


# Nodes.


def node(name: str = "node-1", *, gpus: int = 8, taints: list[Row] | None = None, ready: bool = True, **labels: str) -> Row:
    allocatable = {"cpu": "95", "memory": "1000Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {
        "metadata": {"name": name, "labels": {"product": "H100", **labels}},
        "spec": {"taints": taints} if taints else {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def pod(
    cpu: str = "90", gpus: int = 8, selector: dict[str, str] | None = None, tolerations: list[Row] | None = None, on: str | None = None
) -> Row:
    asked = {"cpu": cpu, "memory": "900Gi", "nvidia.com/gpu": str(gpus)}
    spec = {"containers": [{"name": "harness", "resources": {"requests": asked, "limits": asked}}], "tolerations": tolerations or []}
    return {
        "metadata": {"name": "p"},
        "spec": spec | {"nodeSelector": {"product": "H100"} if selector is None else selector} | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running"},
    }


def looked(nodes: list[Row], asked: Row, running: list[Row] | None = None) -> list[DoctorCheck]:
    return node_room.check_nodes(nodes, asked, running or [], "nvidia.com/gpu")


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def test_a_node_that_a_trial_can_use() -> None:
    lines = looked([node(), node("cpu", gpus=0, product="none")], pod())
    assert statuses(lines) == ["ok", "ok", "ok"] and "product=H100" in lines[0].found


def test_a_misspelt_label_is_told_from_nodes_that_come_on_demand() -> None:
    wrong = looked([node(), node("b")], pod(selector={"product": "H-100"}))
    assert statuses(wrong) == ["failed"] and "H100 (2)" in wrong[0].found and "node_selector" in wrong[0].remedy
    absent = looked([node("cpu", gpus=0, product="none")], pod())
    assert statuses(absent) == ["unknown"] and "autoscaler" in absent[0].found


def test_labels_that_no_node_has_together() -> None:
    (line,) = looked([node(zone="a"), node("b", product="A100", zone="b")], pod(selector={"product": "H100", "zone": "b"}))
    assert line.status == "failed" and "product=H100, zone=b" in line.found


@pytest.mark.parametrize(
    ("toleration", "status"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, "ok"),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}, "ok"),
        ({"operator": "Exists"}, "ok"),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "other", "effect": "NoSchedule"}, "failed"),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, "failed"),
        ({"key": "sku", "operator": "Exists"}, "failed"),
    ],
)
def test_taints_that_a_trial_bears_or_does_not(toleration: Row, status: str) -> None:
    taints = looked([node(taints=[TAINT])], pod(tolerations=[toleration]))[1]
    assert taints.status == status
    if status == "failed":
        assert "nvidia.com/gpu=present:NoSchedule" in taints.found and "launcher.tolerations" in taints.remedy


def test_a_taint_that_only_asks_politely_keeps_nobody_out() -> None:
    assert looked([node(taints=[{**TAINT, "effect": "PreferNoSchedule"}])], pod())[1].status == "ok"


def test_nodes_that_are_not_ready_or_closed() -> None:
    closed = node()
    closed["spec"]["unschedulable"] = True
    assert statuses(looked([node(ready=False), closed], pod())) == ["ok", "failed"]


def test_a_pod_that_fits_no_node_names_what_is_short() -> None:
    (_, _, line) = looked([node()], pod(cpu="96", gpus=9))
    assert line.status == "failed"
    assert "cpu 96 " in line.found and "nvidia.com/gpu 9 " in line.found and "memory" not in line.found


def test_what_runs_in_the_namespace_counts_as_taken() -> None:
    (_, _, line) = looked([node(), node("node-2")], pod(), [pod(on="node-1"), {**pod(on="node-2"), "status": {"phase": "Succeeded"}}])
    assert line.status == "ok" and line.found != looked([node(), node("node-2")], pod())[2].found


def test_the_doctors_lines_about_nodes_and_quota(golden: Golden) -> None:
    lines = [
        *looked([node(), node("node-2")], pod(), [pod(on="node-1")]),
        *looked([node(), node("b")], pod(selector={"product": "H-100"})),
        *looked([node("cpu", gpus=0, product="none")], pod()),
        *looked([node(zone="a"), node("b", product="A100", zone="b")], pod(selector={"product": "H100", "zone": "b"})),
        looked([node(taints=[TAINT])], pod())[1],
        looked([node(ready=False)], pod())[1],
        looked([node()], pod(cpu="96", gpus=9))[2],
        node_room.check_quota([quota(**{GPU: "16", "requests.cpu": "400", "pods": "20", "services": "10"})], [pod()]),
        node_room.check_quota([quota({GPU: "8"}, **{GPU: "8", "limits.memory": "512Gi"})], [pod()]),
        node_room.check_quota([quota(**{"requests.memory": "512Gi"})], [pod()]),
        node_room.check_quota([quota(services="10")], [pod()]),
        node_room.check_quota([], [pod()]),
    ]
    golden("launch.doctor_lines", "\n".join(" | ".join(filter(None, (line.status, line.check, line.found, line.remedy))) for line in lines))


# Quota.


def quota(used: dict[str, str] | None = None, **hard: str) -> Row:
    return {"status": {"hard": hard, "used": used or {}}}


GPU = "requests.nvidia.com/gpu"


def test_room_for_some_trials() -> None:
    line = node_room.check_quota([quota(**{GPU: "16", "requests.cpu": "400", "pods": "20", "services": "10"})], [pod()])
    assert line.status == "ok" and "2 trials" in line.found


def test_a_quota_that_is_used_up_for_now_or_too_small_for_ever() -> None:
    now = node_room.check_quota([quota({GPU: "8"}, **{GPU: "8"})], [pod()])
    assert now.status == "failed" and f"{GPU}: 8 " in now.found
    never = node_room.check_quota([quota(**{GPU: "8"})], [pod(), pod()])
    assert never.status == "failed" and f"{GPU}: 16 " in never.found
    assert now.remedy.endswith(never.remedy) and now.remedy != never.remedy, "waiting helps against a quota in use only"


def test_all_trials_that_may_run_at_a_time_count() -> None:
    whole = [quota(**{GPU: "16"})]
    assert node_room.check_quota(whole, [pod()] * 2, 2).found == "room for 2 trials"
    line = node_room.check_quota(whole, [pod()] * 3, 3)
    assert line.status == "failed" and "no room for 3 trials at a time (launcher.parallel)" in line.found and "24 requested" in line.found


def test_a_pod_with_the_most_of_each_resource() -> None:
    def asking(size: str, **requests: str) -> Row:
        volumes = [{"name": "work", "emptyDir": {"sizeLimit": size}}, {"name": "shared", "emptyDir": {"medium": "Memory"}}]
        return {"spec": {"containers": [{"name": "harness", "resources": {"requests": requests, "limits": requests}}], "volumes": volumes}}

    one, other = asking("285Gi", cpu="500m", scratch="285Gi"), asking("900Mi", cpu="8", scratch="900Mi", gpu="8")
    most = with_most(other, [one, other])
    assert most["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "8", "scratch": "285Gi", "gpu": "8"}
    assert [v["emptyDir"].get("sizeLimit") for v in most["spec"]["volumes"]] == ["285Gi", None]
    assert other["spec"]["containers"][0]["resources"]["requests"]["scratch"] == "900Mi"
    found = "no node can hold a trial's pod: scratch 285 GiB requested, 100 GiB allocatable"
    assert _most_demanding(found, {"small": other, "large": one}) == " (most scratch: large)"


def test_memory_has_units_that_people_use() -> None:
    line = node_room.check_quota([quota(**{"limits.memory": "512Gi"})], [pod()])
    assert "900 GiB" in line.found and "512 GiB" in line.found


def test_a_namespace_without_a_quota_is_no_failure_but_told() -> None:
    line = node_room.check_quota([], [pod()])
    assert line.status == "skipped" and line.found.startswith("optional: ")
