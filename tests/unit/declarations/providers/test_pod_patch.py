"""Which patches on a pod may be declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.fakes.trials import cluster_provider

from plumbline.declarations import DeclarationError, Provider
from plumbline.declarations.loader import load_file

SIDECAR = {"name": "daemon", "image": "registry.example.com/daemon:v1"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def harness(**fields: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "harness", **fields}])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"status": {}}, "status"),
    ({"metadata": {"name": "mine"}}, "metadata.name"),
    ({"metadata": {"labels": {"plumbline/launch": "x"}}}, "metadata.labels.plumbline/launch"),
    ({"metadata": {"annotations": {"plumbline/expires": None}}}, "metadata.annotations.plumbline/expires"),
    ({"metadata": {"labels": {"$patch": "replace"}}}, "metadata.labels.$patch"),
    (spec(schedulerNam="volcano"), "spec.schedulerNam"),
    (spec(**{"$patch": "replace"}), "spec.$patch"),
    (spec(hostPID=True), "spec.hostPID"),
    (spec(hostIPC=True), "spec.hostIPC"),
    (spec(hostNetwork=True), "spec.hostNetwork"),
    (spec(shareProcessNamespace=True), "spec.shareProcessNamespace"),
    (spec(automountServiceAccountToken=True), "spec.automountServiceAccountToken"),
    (spec(serviceAccountName="admin"), "spec.serviceAccountName"),
    (spec(restartPolicy="Always"), "spec.restartPolicy"),
    (spec(activeDeadlineSeconds=9), "spec.activeDeadlineSeconds"),
    (spec(securityContext={"runAsNonRoot": False}), "spec.securityContext.runAsNonRoot"),
    (spec(securityContext={"runAsUser": 0}), "spec.securityContext.runAsUser"),
    (spec(securityContext={"seccompProfile": None}), "spec.securityContext.seccompProfile"),
    (spec(securityContext={"$patch": "replace"}), "spec.securityContext.$patch"),
    (spec(securityContext=None), "spec.securityContext"),
    (harness(securityContext={"privileged": True}), "spec.containers[0].securityContext"),
    (harness(securityContext={"readOnlyRootFilesystem": False}), "spec.containers[0].securityContext"),
    (harness(securityContext={"allowPrivilegeEscalation": True}), "spec.containers[0].securityContext"),
    (harness(securityContext={"capabilities": {"$patch": "replace"}}), "spec.containers[0].securityContext"),
    (harness(args=[]), "spec.containers[0].args"),
    (harness(image="other"), "spec.containers[0].image"),
    (harness(**{"$patch": "delete"}), "spec.containers[0]"),
    (harness(resources={"limits": {"cpu": "1"}}), "spec.containers[0].resources.limits"),
    (harness(env=[{"name": "PLUMBLINE_HOME", "value": "/x"}]), "spec.containers[0].env[0]"),
    (harness(env=[{"name": "PLUMBLINE_HOME", "$patch": "delete"}]), "spec.containers[0].env[0]"),
    (harness(env=[{"name": "HF_TOKEN", "value": "abc"}]), "spec.containers[0].env[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "/work/a"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"mountPath": "/tmp", "$patch": "delete"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(livenessProbe={}), "spec.containers[0].livenessProbe"),
    (spec(containers=[{"name": "second", "image": "x"}]), "spec.containers[0]"),
    (spec(containers=None), "spec.containers"),
    (spec(initContainers=[{"name": "root", "image": "x"}]), "spec.initContainers[0]"),
    (spec(volumes=[{"emptyDir": {}}]), "spec.volumes[0]"),
    (spec(volumes=[{"$patch": "replace"}]), "spec.volumes[0]"),
    (spec(volumes=[{"name": "work", "$patch": "delete"}]), "spec.volumes[0]"),
    (spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "spec.volumes[0]"),
    (spec(volumes=[{"name": "a", "hostPath": {"path": "/var/run/docker.sock"}}]), "spec.volumes[0]"),
    (spec(affinity={"nodeAffinity": {"$patch": "replace"}}), "spec.affinity.nodeAffinity.$patch"),
]
ACCEPTED: list[dict[str, Any]] = [
    {},
    {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"}, "labels": {"team": "ml"}}},
    spec(schedulerName="volcano", dnsConfig={"options": [{"name": "ndots", "value": "1"}]}),
    spec(affinity={"$patch": "replace", "nodeAffinity": {}}, tolerations=[{"operator": "Exists"}]),
    spec(securityContext={"supplementalGroups": [44], "fsGroupChangePolicy": "OnRootMismatch"}),
    spec(resourceClaims=[{"name": "nic", "resourceClaimTemplateName": "rdma"}]),
    harness(resources={"claims": [{"name": "nic"}]}),
    harness(env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]),
    spec(initContainers=[{"name": "daemon", "startupProbe": {"tcpSocket": {"port": 9}}}]),
]


@pytest.mark.parametrize(("patch", "field"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_patch_that_weakens_the_pod_or_takes_what_the_launcher_needs_is_refused_by_field(patch: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        cluster_provider(pod_patch=patch, sidecars=[SIDECAR])
    (problem,) = refused.value.errors()
    assert problem["msg"].removeprefix("Value error, ").startswith(f"pod_patch.{field} ")


@pytest.mark.parametrize("patch", ACCEPTED, ids=str)
def test_other_patches_are_accepted_and_survive_a_round_trip(patch: dict[str, Any]) -> None:
    provider = cluster_provider(pod_patch=patch, sidecars=[SIDECAR])
    assert Provider.model_validate_json(provider.model_dump_json()).launcher.pod_patch == patch  # type: ignore[union-attr]


def test_the_error_has_the_line_of_the_field(tmp_path: Path) -> None:
    data = json.loads(cluster_provider().model_dump_json())
    data["launcher"]["pod_patch"] = spec(schedulerName="volcano", hostPID=True)
    path = tmp_path / "cluster-a.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(DeclarationError) as refused:
        load_file(path, Provider)
    (problem,) = refused.value.problems
    assert problem.field == "launcher.pod_patch.spec.hostPID"
    assert "hostPID" in path.read_text().splitlines()[problem.line - 1]
