"""Which patches on a pod may be declared."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.declarations import DeclarationError, Provider, Trial
from plumbline.declarations.loader import load_file
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.failures import BadDeclaration

SIDECAR = {"name": "daemon", "image": "registry.example.com/daemon:v1"}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def harness(**fields: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "harness", **fields}])


SOURCE = "spec.volumes[0].projected.sources[0].serviceAccountToken"
GKE = "devices.gke.io/container.harness"
ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/harness",
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/harness",
    "security.alpha.kubernetes.io/unsafe-sysctls",
    "io.kubernetes.cri-o.Devices",
    "io.katacontainers.config.hypervisor.path",
    "devices.nri.io/container.harness",
    "cdi.k8s.io/gpu",
    "iam.amazonaws.com/role",
    "vault.hashicorp.com/agent-inject",
    "sidecar.istio.io/inject",
)
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
    (spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "spec.volumes[0].hostPath"),
    (spec(volumes=[{"name": "a", "hostPath": {"path": "/mnt"}}]), "spec.volumes[0].hostPath"),
    (spec(volumes=[{"name": "a", "hostPath": None, "nfs": {"server": "x", "path": "/"}}]), "spec.volumes[0].hostPath"),
    (spec(volumes=[{"name": "a", "nfs": {"server": "x", "path": "/"}}]), "spec.volumes[0].nfs"),
    (spec(volumes=[{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]), SOURCE),
    (
        spec(volumes=[{"name": "a", "projected": {"sources": [{"secret": {}, "podCertificate": {}}]}}]),
        SOURCE.replace("serviceAccountToken", "podCertificate"),
    ),
    (spec(securityContext={"supplementalGroups": [44, 0]}), "spec.securityContext.supplementalGroups"),
    (spec(securityContext={"supplementalGroups": [False]}), "spec.securityContext.supplementalGroups"),
    (spec(securityContext={"supplementalGroups": {"0": 0}}), "spec.securityContext.supplementalGroups"),
    (spec(securityContext={"fsGroup": 0}), "spec.securityContext.fsGroup"),
    (spec(securityContext={"appArmorProfile": {"type": "Unconfined"}}), "spec.securityContext.appArmorProfile"),
    (spec(securityContext={"sysctls": [{"name": "kernel.core_pattern", "value": "|/x"}]}), "spec.securityContext.sysctls"),
    (spec(securityContext={"sysctls": {"name": "kernel.core_pattern"}}), "spec.securityContext.sysctls"),
    (spec(securityContext={"sysctls": 5}), "spec.securityContext.sysctls"),
    (harness(ports=[{"containerPort": 80, "hostPort": 80}]), "spec.containers[0].ports[0].hostPort"),
    (harness(ports=[{"containerPort": 80, "hostIP": "0.0.0.0"}]), "spec.containers[0].ports[0].hostIP"),
    (harness(envFrom=[{"secretRef": {"name": "x"}}]), "spec.containers[0].envFrom"),
    (harness(env=[{"name": "A", "valueFrom": {"fileKeyRef": {}}}]), "spec.containers[0].env[0].valueFrom.fileKeyRef"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "/var/../work/a"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "//work"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "work"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "/work/"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "/"}]), "spec.containers[0].volumeMounts[0]"),
    (harness(volumeMounts=[{"name": "a", "mountPath": "/dev"}]), "spec.containers[0].volumeMounts[0]"),
    (
        harness(volumeMounts=[{"name": "a", "mountPath": "/a", "mountPropagation": "Bidirectional"}]),
        "spec.containers[0].volumeMounts[0].mountPropagation",
    ),
    (
        spec(initContainers=[{"name": "daemon", "volumeMounts": [{"name": "work", "mountPath": "/x"}]}]),
        "spec.initContainers[0].volumeMounts[0]",
    ),
    (spec(initContainers=[{"name": "daemon", "env": [{"name": "API_KEY", "value": "x"}]}]), "spec.initContainers[0].env[0]"),
    (
        spec(initContainers=[{"name": "daemon", "startupProbe": {"httpGet": {"host": "169.254.169.254", "port": 80}}}]),
        "spec.initContainers[0].startupProbe.httpGet.host",
    ),
    *(({"metadata": {"annotations": {key: "x"}}}, f"metadata.annotations.{key}") for key in ANNOTATIONS),
    *(({"metadata": {"labels": {key: "x"}}}, f"metadata.labels.{key}") for key in ("azure.workload.identity/use", "aadpodidbinding")),
    ({"metadata": {"annotations": {GKE: "- path: /dev/nvidia0\n- path: /dev/sda\n"}}}, f"metadata.annotations.{GKE}"),
    ({"metadata": {"annotations": {GKE: "- path: /dev/nvidia0/../sda"}}}, f"metadata.annotations.{GKE}"),
    (spec(affinity={"nodeAffinity": {"$patch": "replace"}}), "spec.affinity.nodeAffinity.$patch"),
]
ACCEPTED: list[dict[str, Any]] = [
    {},
    {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"}, "labels": {"team": "ml"}}},
    spec(schedulerName="volcano", dnsConfig={"options": [{"name": "ndots", "value": "1"}]}),
    spec(affinity={"$patch": "replace", "nodeAffinity": {}}, tolerations=[{"operator": "Exists"}]),
    spec(securityContext={"supplementalGroups": [44], "fsGroupChangePolicy": "OnRootMismatch"}),
    spec(nodeSelector={"env": "prod", "ports": "x"}),
    {
        "metadata": {
            "annotations": {GKE: "- path: /dev/nvidia0\n- path: /dev/nvidia-uvm\n", "cluster-autoscaler.kubernetes.io/safe-to-evict": None}
        }
    },
    spec(securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]}),
    spec(
        volumes=[
            {"name": "a", "projected": {"sources": [{"configMap": {"name": "a"}}, {"secret": {"name": "b"}}]}},
            {
                "name": "b",
                "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"env": "x"}}, "spec": {"resources": {"requests": {}}}}},
            },
        ]
    ),
    harness(ports=[{"containerPort": 9400, "name": "metrics"}], volumeMounts=[{"name": "a", "mountPath": "/devices", "subPath": "x"}]),
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


@pytest.mark.fault(
    "a provider's pod_patch takes the node's disk, a token or root's group", ends="refused", keeps="trials of before stay readable"
)
@pytest.mark.parametrize(
    "fields",
    [
        {"pod_patch": spec(volumes=[{"name": "a", "hostPath": {"path": "/mnt"}}])},
        {"pod_patch": spec(volumes=[{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}])},
        {"pod_patch": spec(securityContext={"supplementalGroups": [0]})},
        {"annotations": {ANNOTATIONS[0]: "unconfined"}},
        {"volumes": [{"name": "a", "empty_dir": {}, "mount": "/var/../work"}]},
    ],
    ids=str,
)
def test_what_older_rules_allowed_is_refused_of_a_declaration_and_read_of_a_trial(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        cluster_provider(**fields)
    data = json.loads(a_trial(provider=cluster_provider()).model_dump_json())
    data["provider"]["launcher"] |= fields
    trial = Trial.model_validate_json(json.dumps(data))
    if "pod_patch" in fields:
        with pytest.raises(BadDeclaration, match=r"launcher\.pod_patch\.spec"):
            pod_manifest(trial, requested_at=datetime(2026, 11, 1, tzinfo=timezone.utc))
