"""Patches on pods, merged as the Kubernetes API merges them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, gang_trial, h100
from tests.fakes.trials import a_trial
from tests.unit.launch.cluster.test_golden_manifests import problems

from plumbline.launch.cluster.manifests.gang import gang_manifests
from plumbline.launch.cluster.manifests.patch import apply_patch, differences, unknown_fields
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest

ROW: dict[str, Any] = {
    "spec": {
        "containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}],
        "tolerations": [{"key": "one"}],
        "nodeSelector": {"disk": "nvme", "zone": "a"},
    }
}


@pytest.mark.parametrize(
    ("patch", "field", "expected"),
    [
        ({"schedulerName": "volcano"}, "schedulerName", "volcano"),
        ({"nodeSelector": {"disk": None, "gpu": "yes"}}, "nodeSelector", {"zone": "a", "gpu": "yes"}),
        ({"nodeSelector": {"$patch": "replace", "gpu": "yes"}}, "nodeSelector", {"gpu": "yes"}),
        ({"nodeSelector": None}, "nodeSelector", None),
        ({"tolerations": [{"key": "two"}]}, "tolerations", [{"key": "two"}]),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, "volumes", [{"name": "v", "emptyDir": {}}]),
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "9"}, {"name": "Z", "value": "3"}]}]},
            "containers",
            [{"name": "a", "env": [{"name": "X", "value": "9"}, {"name": "Y", "value": "2"}, {"name": "Z", "value": "3"}]}],
        ),
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "$patch": "delete"}, {"name": "gone", "$patch": "delete"}]}]},
            "containers",
            [{"name": "a", "env": [{"name": "Y", "value": "2"}]}],
        ),
    ],
)
def test_a_patch_merges_as_the_api_merges_it(patch: dict[str, Any], field: str, expected: Any) -> None:
    before = copy.deepcopy(ROW)
    assert apply_patch(ROW, {"spec": patch})["spec"].get(field) == expected
    assert before == ROW, "the row itself stays as it was"


def test_every_difference_is_named_by_its_field() -> None:
    after = apply_patch(ROW, {"spec": {"schedulerName": "volcano", "containers": [{"name": "a", "env": [{"name": "X", "value": "9"}]}]}})
    assert list(differences(ROW, after)) == [("spec.containers.a.env.X.value", "1", "9"), ("spec.schedulerName", None, "volcano")]
    assert list(differences(ROW, copy.deepcopy(ROW))) == []


TERM = {"matchExpressions": [{"key": "cloud.google.com/gke-nodepool", "operator": "In", "values": ["a3", "a3-spot"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM, {"matchExpressions": []}]}}}}
CLAIM = {"name": "nic", "resourceClaimTemplateName": "rdma"}
HUGE = {"name": "huge", "emptyDir": {"medium": "HugePages-2Mi"}}


def spec_of(patch: dict[str, Any], **changes: Any) -> dict[str, Any]:
    trial = a_trial(provider=h100(pod_patch={"spec": patch}), declare=EIGHT_GPUS).model_copy(update=changes)
    row = pod_manifest(trial, requested_at=REQUESTED_AT)
    assert problems(row) == [] and unknown_fields(row) == []
    found: dict[str, Any] = row["spec"]
    return found


def test_another_scheduler() -> None:
    assert spec_of({"schedulerName": "volcano"})["schedulerName"] == "volcano"


def test_node_affinity_also_of_a_trial_that_avoids_nodes() -> None:
    assert spec_of(AFFINITY)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [TERM, {"matchExpressions": []}]
    fresh = spec_of(AFFINITY, placement="fresh_node", avoid_nodes=("gpu-3",))["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in fresh] == [["gpu-3"], ["gpu-3"]], "one term is enough for the scheduler"
    assert fresh[0]["matchExpressions"] == TERM["matchExpressions"]


def test_huge_pages_as_a_volume() -> None:
    spec = spec_of({"volumes": [HUGE], "containers": [{"name": "harness", "volumeMounts": [{"name": "huge", "mountPath": "/hugepages"}]}]})
    assert HUGE in spec["volumes"] and spec["containers"][0]["volumeMounts"][-1] == {"name": "huge", "mountPath": "/hugepages"}
    assert {"work", "shared-memory"} <= {volume["name"] for volume in spec["volumes"]}


def test_claims_of_dynamic_resource_allocation() -> None:
    spec = spec_of({"resourceClaims": [CLAIM], "containers": [{"name": "harness", "resources": {"claims": [{"name": "nic"}]}}]})
    assert spec["resourceClaims"] == [CLAIM]
    resources = spec["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "nic"}] and resources["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize("kind", ["pods", "jobset"])
def test_every_kind_of_gang_carries_a_patch(kind: str) -> None:
    made = gang_manifests(gang_trial(2, gang=kind, pod_patch={"spec": AFFINITY}), requested_at=REQUESTED_AT)
    assert str(TERM) in str(made.pods or made.owner)
    assert all(problems(row) == [] for row in (*made.pods, *([] if made.pods else [made.owner])))


def test_a_field_that_no_pod_has_is_named() -> None:
    row = pod_manifest(
        a_trial(provider=h100(pod_patch={"spec": {"affinity": {"nodeAfinity": {}}}}), declare=EIGHT_GPUS), requested_at=REQUESTED_AT
    )
    assert unknown_fields(row) == ["spec.affinity.nodeAfinity"]
