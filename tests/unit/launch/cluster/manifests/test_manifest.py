from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data.manifests.rewrite import EIGHT_GPUS, REQUESTED_AT, h100
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.declarations import Trial
from plumbline.harness.launcher_protocol import CPU_LIMIT_VARIABLE, DELETIONS_VARIABLE, VOLUME_VARIABLE, Deletion
from plumbline.launch.cluster.manifests import trial_pod
from plumbline.launch.cluster.manifests.trial_pod import QUEUE, SHARED_MEMORY, WORK, pod_manifest, quantity
from plumbline.launch.cluster.names import EXPIRES, RANK
from plumbline.launch.failures import BadDeclaration
from plumbline.results import ResultStore

MANIFESTS = Path(__file__).parents[4] / "data" / "manifests"


def made(trial: Trial, rank: int = 0) -> dict[str, Any]:
    return pod_manifest(trial, rank, requested_at=REQUESTED_AT)


def container(trial: Trial) -> dict[str, Any]:
    (found,) = made(trial)["spec"]["containers"]
    return dict(found)


def environment(trial: Trial) -> dict[str, Any]:
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container(trial)["env"]}


CPU = a_trial(provider=cluster_provider())
GPUS = a_trial(provider=h100(), declare=EIGHT_GPUS)


def test_the_same_trial_gives_the_same_pod_and_shares_nothing_with_the_next() -> None:
    first = made(CPU)
    first["spec"]["containers"][0]["env"].clear()
    first["metadata"]["labels"].clear()
    assert made(CPU) == made(CPU) and made(CPU)["spec"]["containers"][0]["env"] and made(CPU)["metadata"]["labels"]


def test_ranks_and_attempts_have_names_of_their_own() -> None:
    pods = [made(CPU), made(CPU, 1), made(CPU.model_copy(update={"attempt": 2}))]
    assert len({pod["metadata"]["name"] for pod in pods}) == 3
    assert [pod["metadata"]["labels"][RANK] for pod in pods] == ["0", "1", "0"]


def test_the_harness_reads_its_trial_where_the_launcher_stores_it() -> None:
    arguments = container(CPU)["args"]
    assert arguments == ["--trial", f"s3://plumbline-results/a/{ResultStore.folder(CPU)}/trial.json", "--out", "s3://plumbline-results/a"]
    slash = a_trial(provider=cluster_provider(results_url="s3://plumbline-results/a/"))
    assert container(slash)["args"] == arguments


def test_requests_are_limits_and_gpus_are_what_the_workload_needs() -> None:
    assert container(CPU)["resources"]["limits"] == {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "5Gi"}
    resources = container(GPUS)["resources"]
    assert resources["requests"] == resources["limits"] and resources["limits"]["nvidia.com/gpu"] == "8"
    assert resources["limits"]["rdma/ib"] == "8" and resources["limits"]["ephemeral-storage"] == "500Gi"
    one = a_trial(provider=h100(gpu_resource="example.com/gpu"), declare={"needs": {"accelerator": "nvidia", "count": 1}})
    assert container(one)["resources"]["limits"]["example.com/gpu"] == "1"


def test_a_trial_that_fills_its_node_gets_all_gpus() -> None:
    asked = {"needs": {"accelerator": "nvidia", "count": 1}}
    alone, filling = (a_trial("inference", provider=h100(), declare={**asked, **more}) for more in ({}, {"replicas": "fill"}))
    assert [container(trial)["resources"]["limits"]["nvidia.com/gpu"] for trial in (alone, filling)] == ["1", "8"]


@pytest.mark.parametrize(
    ("size", "written"), [(2.0**30, "1Gi"), (1.5 * 2**30, "1536Mi"), (2.0**20, "1Mi"), (2048.0, "2Ki"), (1e9, "1000000000")]
)
def test_sizes_are_written_exactly(size: float, written: str) -> None:
    assert quantity(size) == written


def test_shared_memory_has_the_declared_size() -> None:
    for trial, size in ((CPU, "256Mi"), (GPUS, "64Gi")):
        volumes = {volume["name"]: volume["emptyDir"] for volume in made(trial)["spec"]["volumes"]}
        assert volumes[SHARED_MEMORY] == {"medium": "Memory", "sizeLimit": size}
        assert {"name": SHARED_MEMORY, "mountPath": "/dev/shm"} in container(trial)["volumeMounts"]


def test_scratch_disk_is_as_declared_or_as_the_workload_needs_and_bounds_the_volume() -> None:
    for trial, size in ((GPUS, "500Gi"), (CPU, "5Gi")):
        amounts = container(trial)["resources"]
        assert amounts["requests"]["ephemeral-storage"] == amounts["limits"]["ephemeral-storage"] == size
        volumes = {volume["name"]: volume["emptyDir"] for volume in made(trial)["spec"]["volumes"]}
        assert volumes[WORK] == {"sizeLimit": size}


@pytest.mark.parametrize("name", sorted(path.stem for path in MANIFESTS.glob("*.yaml")))
def test_every_volume_on_the_nodes_disk_has_a_size_limit(name: str) -> None:
    def volumes(value: object) -> list[dict[str, object]]:
        if isinstance(value, dict):
            own = [value["emptyDir"]] if "emptyDir" in value else []
            return own + [found for item in value.values() for found in volumes(item)]
        return [found for item in value for found in volumes(item)] if isinstance(value, list) else []

    found = volumes(list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text())))
    assert all("sizeLimit" in volume for volume in found)


def test_a_pod_whose_need_is_not_known_has_a_limit_and_requests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_pod, "scratch_needed", lambda workload, **_: None)
    trial = a_trial(provider=cluster_provider())
    volumes = {volume["name"]: volume["emptyDir"] for volume in made(trial)["spec"]["volumes"]}
    assert volumes[WORK] == {"sizeLimit": "500Gi"}
    assert "ephemeral-storage" not in container(trial)["resources"]["requests"]


def test_only_what_is_declared_is_asked_for() -> None:
    spec = made(CPU)["spec"]
    optional = ("nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName", "runtimeClassName", "hostIPC")
    assert [field for field in optional if field in spec] == []
    assert QUEUE not in made(CPU)["metadata"]["labels"]
    full = cluster_provider(
        image_pull_secrets=["registry"],
        priority_class="high",
        runtime_class="nvidia",
        host_ipc=True,
        queue="gpus",
        node_selector={"disk": "nvme"},
    )
    pod = made(a_trial(provider=full))
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}] and pod["spec"]["nodeSelector"] == {"disk": "nvme"}
    assert (pod["spec"]["priorityClassName"], pod["spec"]["runtimeClassName"], pod["spec"]["hostIPC"]) == ("high", "nvidia", True)
    assert pod["metadata"]["labels"][QUEUE] == "gpus"


def test_a_pod_may_do_nothing_and_cannot_outlive_its_deadline() -> None:
    spec = made(a_trial(provider=cluster_provider(timeout="90s")))["spec"]
    assert (spec["activeDeadlineSeconds"], spec["restartPolicy"], spec["automountServiceAccountToken"]) == (90, "Never", False)
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (only,) = spec["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all("emptyDir" in volume for volume in spec["volumes"])


def test_a_launch_expires_after_everything_that_it_may_take() -> None:
    times = {"schedule_timeout": "10min", "startup_timeout": "5min", "timeout": "1h", "unreachable_timeout": "2min"}
    found = made(a_trial(provider=cluster_provider(**times)))["metadata"]["annotations"][EXPIRES]
    assert int(found) > REQUESTED_AT.timestamp() + (10 + 5 + 60 + 2) * 60


def test_the_pod_knows_itself_its_limits_and_its_image() -> None:
    found = environment(GPUS)
    assert found["PLUMBLINE_IMAGE"] == container(GPUS)["image"] == GPUS.provider.launcher.images.training  # type: ignore[union-attr]
    assert found[CPU_LIMIT_VARIABLE] == {"resourceFieldRef": {"resource": "limits.cpu"}}
    assert found["PLUMBLINE_NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert len(found) == len(container(GPUS)["env"])


def test_each_kind_runs_in_its_own_image() -> None:
    other = cluster_provider(images={"training": "localhost/t:1", "inference": "localhost/i:1"})
    assert [container(a_trial(kind, other))["image"] for kind in ("training", "inference")] == ["localhost/t:1", "localhost/i:1"]


def test_what_cannot_run_in_a_pod_is_refused_by_name() -> None:
    with pytest.raises(BadDeclaration, match=r"local-1core: launcher\.kind.*kubernetes"):
        made(a_trial())
    trial = a_trial("inference", cluster_provider())
    only = cluster_provider(images={"training": "localhost/t:1"})
    with pytest.raises(BadDeclaration, match=r"cluster-a: launcher\.images\.inference"):
        made(trial.model_copy(update={"provider": only}))


DELETED: dict[str, Any] = {"fault": {"inject": "pod_delete", "at_step": 50}}


def test_only_a_trial_whose_pod_is_deleted_gets_the_providers_volume() -> None:
    provider = cluster_provider(volume_claim="checkpoints")
    assert "persistentVolumeClaim" not in str(made(a_trial(provider=provider)))
    trial = a_trial(provider=provider, declare=DELETED)
    assert {"name": "kept", "persistentVolumeClaim": {"claimName": "checkpoints"}} in made(trial)["spec"]["volumes"]
    assert environment(trial)[VOLUME_VARIABLE] == "/kept" and DELETIONS_VARIABLE not in environment(trial)


def test_a_pod_that_takes_anothers_place_has_a_name_of_its_own_and_is_told() -> None:
    trial = a_trial(provider=cluster_provider(volume_claim="checkpoints"), declare=DELETED)
    before = (Deletion(10.0, 11.5), Deletion(20.0, 21.0, late=True))
    pod = pod_manifest(trial, requested_at=REQUESTED_AT, deletions=before)
    assert pod["metadata"]["name"] == made(trial)["metadata"]["name"] + "-2"
    (told,) = [entry["value"] for entry in pod["spec"]["containers"][0]["env"] if entry["name"] == DELETIONS_VARIABLE]
    assert tuple(Deletion(**row) for row in json.loads(told)) == before


def test_without_a_volume_nothing_is_built() -> None:
    trial = a_trial(provider=cluster_provider(volume_claim="checkpoints"), declare=DELETED)
    with pytest.raises(BadDeclaration, match=r"cluster-a: launcher\.volume_claim .*PersistentVolumeClaim"):
        made(trial.model_copy(update={"provider": cluster_provider()}))
