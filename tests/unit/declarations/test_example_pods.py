"""The pod of every example provider, as each kind of gang makes it, against the published models; and its fields against what its cloud documents.

The pages in docs/providers show the same fields in tables. Where a cloud's manifest is public, the values below are read from it.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.unit.launch.cluster.test_golden_manifests import problems

from plumbline.declarations import KubernetesLauncher, Provider, Trial, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.launch.cluster.manifests.gang import gang_manifests
from plumbline.launch.cluster.manifests.patch import unknown_fields
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.plan import typical_trials

DECLARED = load(REPOSITORY / "include" / "config")
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)
EXAMPLES = [p for p in DECLARED.providers.values() if p.name.startswith("example-") and isinstance(p.launcher, KubernetesLauncher)]


def trials(provider: Provider) -> list[Trial]:
    assert isinstance(provider.launcher, KubernetesLauncher)
    return typical_trials(DECLARED, provider, NOW)


def pod(name: str) -> dict[str, Any]:
    row = pod_manifest(trials(DECLARED.providers[name])[0], requested_at=NOW)
    found: dict[str, Any] = row["spec"]
    return found


def harness(name: str) -> dict[str, Any]:
    (container,) = pod(name)["containers"]
    return {**container, "env": {e["name"]: e.get("value") for e in container["env"]}}


def of_two_nodes(trial: Trial) -> Trial:
    assert isinstance(trial.workload, TrainingWorkload)
    parallelism = trial.workload.parallelism.model_copy(update={"nodes": 2})
    return trial.model_copy(update={"workload": trial.workload.model_copy(update={"parallelism": parallelism})})


@pytest.mark.parametrize("provider", EXAMPLES, ids=lambda p: p.name)
def test_every_pod_of_an_example_has_the_published_shape(provider: Provider) -> None:
    found = trials(provider)
    assert len(found) == 2
    for trial in found:
        row = pod_manifest(trial, requested_at=NOW)
        assert problems(row) == [] and unknown_fields(row) == []


@pytest.mark.parametrize("kind", ["pods", "jobset"])
@pytest.mark.parametrize("provider", EXAMPLES, ids=lambda p: p.name)
def test_every_gang_of_an_example_has_the_published_shape(provider: Provider, kind: str) -> None:
    assert isinstance(provider.launcher, KubernetesLauncher)
    launcher = provider.launcher.model_copy(update={"gang": kind})
    trial = of_two_nodes(trials(provider)[0]).model_copy(update={"provider": provider.model_copy(update={"launcher": launcher})})
    made = gang_manifests(trial, requested_at=NOW)
    assert len(made.pods) == (2 if kind == "pods" else 0)
    rows = made.pods if kind == "pods" else (made.owner,)
    assert [problem for row in rows for problem in problems(row)] == []


@pytest.mark.parametrize(("name", "interfaces"), [("example-eks-p5", "32"), ("example-eks-p5en", "16")])
def test_eks_asks_for_efa_as_aws_documents(name: str, interfaces: str) -> None:
    container = harness(name)
    assert (
        container["resources"]["limits"].items()
        >= {"vpc.amazonaws.com/efa": interfaces, "hugepages-2Mi": "5Gi", "nvidia.com/gpu": "8"}.items()
    )
    assert container["env"]["FI_PROVIDER"] == "efa"


@pytest.mark.parametrize(
    ("name", "daemon", "networks", "capabilities"),
    [
        ("example-gke-a3-mega", "tcpxo-daemon", 8, ["NET_ADMIN", "NET_BIND_SERVICE"]),
        ("example-gke-a3-high", "tcpx-daemon", 4, ["NET_ADMIN"]),
    ],
)
def test_gke_runs_the_daemon_beside_the_trial_as_google_documents(name: str, daemon: str, networks: int, capabilities: list[str]) -> None:
    row = pod_manifest(trials(DECLARED.providers[name])[0], requested_at=NOW)
    annotations, spec = row["metadata"]["annotations"], row["spec"]
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert [i["interfaceName"] for i in interfaces] == [f"eth{i}" for i in range(networks + 1)]
    assert "/dev/nvidia7" in annotations[f"devices.gke.io/container.{daemon}"]
    (sidecar,) = spec["initContainers"]
    assert sidecar["name"] == daemon and sidecar["restartPolicy"] == "Always"
    assert sidecar["securityContext"]["capabilities"]["add"] == capabilities and "privileged" not in sidecar["securityContext"]
    assert {"/hostsysfs", "/hostprocsysfs", "/usr/local/nvidia/lib64"} <= {m["mountPath"] for m in sidecar["volumeMounts"]}
    assert "LD_LIBRARY_PATH" not in harness(name)["env"], "it would replace the image's"
    assert harness(name)["command"][3:] == ["/usr/local/nvidia/lib64", "python", "-m", "plumbline.harness", "run"]
    paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert paths >= {"/home/kubernetes/bin/nvidia/lib64", "/sys", "/proc/sys"}


def test_infiniband_is_asked_for_as_each_cloud_documents() -> None:
    for name in ("example-aks-h100", "example-aks-h200"):
        container = harness(name)
        assert container["resources"]["limits"]["rdma/ib"] == "8"
        assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
        assert container["env"]["NCCL_TOPO_FILE"] == "/opt/nvidia-topology/topo.xml"
        assert any(mount["mountPath"] == "/opt/nvidia-topology" for mount in container["volumeMounts"])
    coreweave = harness("example-coreweave-h100")
    assert coreweave["resources"]["limits"]["rdma/ib"] == "1" and coreweave["env"]["NCCL_IB_HCA"] == "ibp"
    oke = harness("example-oke-h100")
    assert oke["resources"]["limits"]["nvidia.com/rdma-vf"] == "16" and oke["env"]["NCCL_IB_GID_INDEX"] == "3"
    assert oke["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"] and "privileged" not in oke["securityContext"]


@pytest.mark.parametrize("provider", EXAMPLES, ids=lambda p: p.name)
def test_the_page_names_every_field_of_the_example(provider: Provider) -> None:
    assert isinstance(provider.launcher, KubernetesLauncher)
    page = (REPOSITORY / "docs" / "providers" / f"{provider.name.split('-')[1]}.md").read_text()
    launcher = provider.launcher
    fields = ("env", "annotations", "capabilities", "volumes", "sidecars", "pod_patch")
    declared = [field for field in fields if getattr(launcher, field)] + list(launcher.resources.extended)
    assert [field for field in declared if f"`{field}" not in page] == []


def test_a_pod_on_amd_gpus_requests_them_and_is_in_the_groups_that_own_their_device_files() -> None:
    data = json.loads(DECLARED.providers["example-coreweave-h100"].model_dump_json())
    data["accelerator"] = {"kind": "amd", "product": "AMD-Instinct-MI300X", "count": 8}
    data["launcher"] |= {
        "gpu_resource": "amd.com/gpu",
        "supplemental_groups": [44, 109],
        "images": {"training": data["launcher"]["images"]["training"]},
    }
    provider = Provider.model_validate_json(json.dumps(data))
    (trial,) = trials(provider)
    assert trial.workload.kind == "training" and trial.workload.needs.accelerator == "gpu"
    row = pod_manifest(trial, requested_at=NOW)
    assert problems(row) == [] and unknown_fields(row) == []
    assert row["spec"]["securityContext"]["supplementalGroups"] == [44, 109] and row["spec"]["securityContext"]["runAsUser"] == 10001
    limits = row["spec"]["containers"][0]["resources"]["limits"]
    assert limits["amd.com/gpu"] == str(trial.workload.needs.count) and "nvidia.com/gpu" not in limits
    assert [t["key"] for t in row["spec"]["tolerations"]] == ["amd.com/gpu"]
