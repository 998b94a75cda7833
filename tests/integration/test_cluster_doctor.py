"""`plumbline cluster …` as a process would run it, against an API that answers over HTTP: what it finds, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.kubernetes_api.rows import node_row
from tests.fakes.trials import CONFIG, H100, cluster_provider, serving
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.declarations import KubernetesLauncher, Provider, load
from plumbline.launch.cluster.doctor import doctor
from plumbline.launch.cluster.doctor.doctor import examine_cluster
from plumbline.launch.cluster.doctor.permissions import Permission, required_permissions
from plumbline.launch.cluster.launcher_account import SERVICE_ACCOUNT
from plumbline.launch.cluster.short_pod import PodPatience
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.launch.plan import possible_trials
from plumbline.results.store_check import check_access

STORE_FROM_A_POD, STORE_FROM_HERE = "store from a pod (training)", "store from here"
QUICK = PodPatience(node_s=0.3, start_s=1.0, trouble_s=0.1, gone_s=2.0, poll_s=0.02)
Told = dict[str, DoctorCheck]


def rules(launcher: KubernetesLauncher) -> list[dict[str, Any]]:
    return [{"apiGroups": [p.group], "resources": [p.resource], "verbs": [p.verb]} for p in required_permissions(launcher)]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        running.rules = rules(launcher_of(cluster_provider()))
        running.quota("plumbline", pods="8")
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json())
        yield running


def launcher_of(provider: Provider) -> KubernetesLauncher:
    assert isinstance(provider.launcher, KubernetesLauncher)
    return provider.launcher


def provider_at(store: Path, **settings: Any) -> Provider:
    store.mkdir(exist_ok=True)
    return cluster_provider(results_url=store.as_uri(), **settings)


def said(url: str, fault: str | None = None, clock: float = 0.0, **torch: Any) -> Script:
    """A pod in which the harness looks at the store, as `python -m plumbline.harness check` does."""

    def harness(run: PodRun) -> int:
        from plumbline.results import ResultStore

        took = check_access(ResultStore(url)) if fault is None else None
        run.say(
            "a banner of the image",
            json.dumps({"store": url, "fault": fault, "seconds": took, "time": time.time() + clock, "harness": "9.9", **torch}),
        )
        return 0 if fault is None else 1

    return Script().started().runs(harness)


def examined(provider: Provider, patience: PodPatience | None = QUICK, **how: bool) -> Told:
    now = datetime.now(timezone.utc)
    launcher = launcher_of(provider)
    return {
        line.check: line
        for line in examine_cluster(provider, launcher, possible_trials(load(CONFIG), provider, now), patience=patience, **how)
    }


def wrong(told: Told) -> list[str]:
    return sorted(name for name, line in told.items() if line.status == "failed")


def test_a_cluster_on_which_all_is_right(kube: FakeKubernetes, tmp_path: Path) -> None:
    provider = provider_at(tmp_path / "store", results_secret="plumbline-results")
    kube.script("pl-doctor-*", said((tmp_path / "store").as_uri()))
    began = time.time()
    told = examined(provider)
    assert wrong(told) == [], told
    assert "v1.31.0" in told["reachable"].found and "harness 9.9" in told["image (training)"].found
    assert {STORE_FROM_A_POD, "node clock", STORE_FROM_HERE} <= set(told)
    assert kube.leftovers() == [] and list((tmp_path / "store").iterdir()) == []
    # One image for both kinds: one pod, small, with a trial's own security, and its end written on it.
    (made,) = [c for c in kube.called("POST */pods") if not c.query]
    container = made.body["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert container["args"] == ["--out", (tmp_path / "store").as_uri()]
    assert container["securityContext"]["readOnlyRootFilesystem"] and made.body["spec"]["automountServiceAccountToken"] is False
    assert container["envFrom"][0]["secretRef"]["name"] == "plumbline-results"
    assert int(made.body["metadata"]["annotations"]["plumbline/expires"]) > began


def test_it_asks_for_nothing_that_the_shipped_role_does_not_grant(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-doctor-*", said((tmp_path / "store").as_uri()))
    examined(provider_at(tmp_path / "store"))
    verbs = {"POST": "create", "DELETE": "delete"}
    for call in kube.requests:
        if "/api/v1" not in call.path:
            continue
        rest = call.path.removeprefix("/api/v1/").removeprefix("namespaces/plumbline/").split("/")
        resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
        verb = verbs.get(call.method) or ("get" if len(rest) > 1 else "list")
        assert Permission("", resource, verb) in required_permissions(launcher_of(cluster_provider())), call


def test_no_pod_means_none(kube: FakeKubernetes, tmp_path: Path) -> None:
    told = examined(provider_at(tmp_path / "store"), patience=None)
    assert wrong(told) == [] and "image (training)" not in told
    assert [c.query for c in kube.called("POST */pods")] == [{"dryRun": "All"}]


@pytest.mark.parametrize(
    ("script", "failing", "told_of"),
    [
        (Script().scheduled().image_pull_fails(), "image (training)", "load localhost/plumbline/cpu:test "),
        (Script().scheduled().invalid_image_name(), "image (training)", "check localhost/plumbline/cpu:test "),
        (Script().scheduled().waiting("CreateContainerConfigError", 'secret "x" not found'), "secrets", "results_secret"),
        (Script().started().log("no such module").failed(1), "image (training)", "k8s/images"),
        (Script().unschedulable(), "pod (training)", "nodes, taints and queue"),
        (Script().scheduled().pulling(), "image (training)", "registry"),
        (said("s3://x", fault="s3://x/y could not be written: Access Denied"), STORE_FROM_A_POD, "results_secret"),
        (said("file:///tmp", clock=3600), "node clock", "chrony"),
        (said("file:///tmp", torch="2.6.0", torch_fault="PyTorch 2.6.0 is not supported"), "image (training)", "such a PyTorch"),
        (said("file:///tmp", torch=None, torch_fault="PyTorch is not installed"), "image (training)", "such a PyTorch"),
    ],
)
def test_what_a_pod_meets_is_told_with_its_remedy(kube: FakeKubernetes, tmp_path: Path, script: Script, failing: str, told_of: str) -> None:
    kube.script("pl-doctor-*", script)
    told = examined(provider_at(tmp_path / "store"))
    assert failing in wrong(told), told
    assert told_of in told[failing].remedy
    assert kube.leftovers() == []


GPUS = {"gpu.count": 8, "gpu.vendor": "nvidia", "driver.version": "570.86.15", "torch.version": "2.9.0", "torch.cuda": "12.8"}
GPUS |= {f"gpu.{i}.product": "NVIDIA-H100-80GB-HBM3" for i in range(8)}


@pytest.mark.fault(
    "a GPU provider has a CPU-only image or no driver", ends="a line of plumbline cluster doctor", keeps="nothing on the cluster"
)
@pytest.mark.parametrize(
    ("seen", "failing"),
    [
        (GPUS, None),
        ({**GPUS, "torch.cuda": None}, "image for GPUs (training)"),
        ({**GPUS, "gpu.count": 0}, "accelerators (training)"),
        ({**GPUS, "driver.version": None}, "accelerators (training)"),
        ({**GPUS, "gpu.3.product": "NVIDIA-A100"}, "accelerators (training)"),
    ],
)
def test_a_pod_of_each_image_takes_the_accelerators_and_looks(
    kube: FakeKubernetes, tmp_path: Path, seen: dict[str, Any], failing: str | None
) -> None:
    kube.script("pl-doctor-*", said((tmp_path / "store").as_uri(), torch="2.9.0", accelerators=seen))
    images = {"training": "localhost/plumbline/gpu:test", "inference": "localhost/plumbline/triton:test"}
    told = examined(provider_at(tmp_path / "store", accelerator=H100, images=images))
    assert (failing in wrong(told)) if failing else not wrong(told), told
    pods = [c.body for c in kube.called("POST */pods") if not c.query]
    assert [pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for pod in pods] == ["8", "8"], (
        "each image meets the driver"
    )
    assert kube.leftovers() == []


@pytest.mark.parametrize(
    ("more", "limits", "failing", "told_of"),
    [
        ({"cuda_fault": "RuntimeError: Error 803"}, {}, "accelerators (training)", "docs/clusters.md"),
        ({}, {"limits.locked_memory_bytes": 8 << 20}, "memlock (training)", "LimitMEMLOCK"),
        ({}, {"limits.locked_memory_bytes": None}, None, ""),
    ],
)
def test_a_pod_with_accelerators_opens_cuda_and_asks_for_all_that_a_trial_asks_for(
    kube: FakeKubernetes, tmp_path: Path, more: dict[str, Any], limits: dict[str, Any], failing: str | None, told_of: str
) -> None:
    kube.script("pl-doctor-*", said((tmp_path / "store").as_uri(), torch="2.9.0", accelerators={**GPUS, **limits}, **more))
    node = node_row("with-adapters", kube.minor, None, 8, None)
    node["status"]["allocatable"] |= {"rdma/ib": "8", "hugepages-2Mi": "5Gi"}
    kube.put("nodes", "", node)
    resources = {"cpu": 16, "memory": "64GiB", "extended": {"rdma/ib": 8}, "hugepages": {"2Mi": "5GiB"}}
    sidecar = {"name": "tcpx-daemon", "image": f"localhost/tcpx@sha256:{64 * '0'}", "cpu": 4, "memory": "8GiB"}
    annotations = {"networking.gke.io/default-interface": "eth0"}
    told = examined(provider_at(tmp_path / "store", accelerator=H100, resources=resources, sidecars=[sidecar], annotations=annotations))
    assert wrong(told) == ([failing] if failing else []), told
    assert failing is None or told_of in told[failing].remedy
    (pod,) = [c.body for c in kube.called("POST */pods") if not c.query]
    requests = pod["spec"]["containers"][0]["resources"]["limits"]
    assert requests == {
        "cpu": "16",
        "memory": "64Gi",
        "nvidia.com/gpu": "8",
        "rdma/ib": "8",
        "hugepages-2Mi": "5Gi",
        "ephemeral-storage": "285Gi",
    }
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["tcpx-daemon"]
    assert pod["metadata"]["annotations"]["networking.gke.io/default-interface"] == "eth0"


def test_accelerators_are_spared_on_demand(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-doctor-*", said((tmp_path / "store").as_uri(), torch="2.9.0", accelerators={**GPUS, "gpu.count": 0}))
    told = examined(provider_at(tmp_path / "store", accelerator=H100), gpu=False)
    assert wrong(told) == [] and told["accelerators (training)"].status == "skipped"
    assert not [
        c
        for c in kube.called("POST */pods")
        if not c.query and "nvidia.com/gpu" in json.dumps(c.body["spec"]["containers"][0]["resources"])
    ]


def test_an_image_that_cannot_be_pulled_says_why_and_asks_about_the_registry(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-doctor-*", Script().scheduled().image_pull_fails())
    images = {"training": f"registry.example.com/plumbline@sha256:{64 * '0'}"}
    told = examined(provider_at(tmp_path / "store", images=images))["image (training)"]
    assert "code = NotFound" in told.found, "the kubelet's last word is that it waits"
    assert "image_pull_secrets" in told.remedy


def test_a_doctor_that_fails_on_the_way_takes_its_pod_along(kube: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-doctor-*", Script().started().after(30).succeeded())
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.5)
    kube.answer_next(500, times=100, match="GET */pods/pl-doctor-*")
    told = examined(provider_at(tmp_path / "store"))
    assert wrong(told) == ["reachable"] and "500" in told["reachable"].found
    assert kube.called("DELETE */pods/pl-doctor-*") and kube.leftovers() == []


@pytest.mark.parametrize(
    ("prepare", "settings", "failing"),
    [
        (lambda kube: setattr(kube, "clock_skew_s", 90.0), {}, ["clock"]),
        (lambda kube: setattr(kube, "clock_skew_s", -90.0), {}, ["clock"]),
        (lambda kube: setattr(kube, "rules", kube.rules[:-1]), {}, ["permissions"]),
        (lambda kube: kube.rules.append({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}), {}, ["least privilege"]),
        (lambda kube: kube.quota("plumbline", pods="0"), {}, ["admission", "quota"]),
        (lambda kube: kube.node("node-1", labels={"a": "c"}, gpus=8), {"node_selector": {"a": "b"}}, ["nodes"]),
        (lambda kube: None, {"resources": {"cpu": 512, "memory": "2GiB"}}, ["room on a node"]),
        (lambda kube: None, {"namespace": "elsewhere"}, ["admission"]),
        (lambda kube: None, {"queue": "gpus"}, ["permissions", "queue"]),
    ],
)
def test_what_the_api_tells(
    kube: FakeKubernetes, tmp_path: Path, prepare: Callable[[FakeKubernetes], None], settings: dict[str, Any], failing: list[str]
) -> None:
    prepare(kube)
    told = examined(provider_at(tmp_path / "store", **settings), patience=None)
    assert wrong(told) == failing, told
    assert all(told[name].remedy for name in failing)


def test_a_queue_that_admits_and_one_that_is_stopped(kube: FakeKubernetes, tmp_path: Path) -> None:
    provider = provider_at(tmp_path / "store", queue="gpus")
    kube.rules = rules(launcher_of(provider))
    queue = {"metadata": {"name": "gpus"}, "spec": {"clusterQueue": "all"}}
    kube.put("localqueues", "plumbline", queue)
    line = examined(provider, patience=None)["queue"]
    assert line.status == "ok" and {"gpus", "all"} <= set(line.found.split())
    reason = "ClusterQueue all does not exist"
    stopped = {"conditions": [{"type": "Active", "status": "False", "message": reason}]}
    kube.put("localqueues", "plumbline", {**queue, "status": stopped})
    line = examined(provider, patience=None)["queue"]
    assert line.status == "failed" and reason in line.found


def test_a_scaler_that_would_never_act(kube: FakeKubernetes, tmp_path: Path) -> None:
    provider = provider_at(tmp_path / "store", serving=serving(scaling={"by": "hpa", "maximum": 2, "cpu": "70%"}))
    kube.rules = rules(launcher_of(provider))
    assert examined(provider, patience=None)["scaler"].status == "ok"
    kube.absent.add("metrics.k8s.io")
    line = examined(provider, patience=None)["scaler"]
    assert line.status == "failed" and "metrics.k8s.io" in line.found and "install a metrics server" in line.remedy


def test_an_authorizer_that_cannot_list_is_asked_verb_by_verb(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.rules, kube.rules_incomplete = [], True
    told = examined(provider_at(tmp_path / "store"), patience=None)
    assert told["permissions"].status == "ok" and told["least privilege"].status == "unknown"
    kube.forbidden.add(("get", "pods/log"))
    line = examined(provider_at(tmp_path / "store"), patience=None)["permissions"]
    assert line.status == "failed" and "get pods/log" in line.found


def test_credentials_that_are_not_accepted_any_more(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.token = "rotated"
    told = examined(provider_at(tmp_path / "store"))
    assert wrong(told) == ["credentials"] and "HTTP 401" in told["credentials"].found
    assert told[STORE_FROM_HERE].status == "ok"


def test_a_cluster_that_is_away(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.down()
    told = examined(provider_at(tmp_path / "store"))
    assert wrong(told) == ["reachable"] and told["reachable"].remedy


def test_a_store_that_cannot_be_used_from_here(kube: FakeKubernetes, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    url = (tmp_path / "file" / "below").as_uri()
    line = examined(cluster_provider(results_url=url), patience=None)[STORE_FROM_HERE]
    assert line.status == "failed" and url in line.remedy


# The commands.


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose provider cluster-a is the fake's."""
    shutil.copytree(CONFIG, tmp_path / "config")
    data = json.loads(provider_at(tmp_path / "store").model_dump_json(exclude_none=True))
    (tmp_path / "config" / "providers" / "cluster-a.yaml").write_text(yaml.safe_dump(data))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_doctor_by_json(kube: FakeKubernetes, config: Path) -> None:
    result = CliRunner().invoke(app, ["cluster", "doctor", "cluster-a", "--no-pod", "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["ok"]
    assert {c["check"]: c["status"] for c in found["checks"] if c["status"] != "ok"} == {"pods": "skipped"}


def test_what_the_cluster_cannot_list_is_no_success(kube: FakeKubernetes, config: Path) -> None:
    kube.rules, kube.rules_incomplete = [], True
    result = CliRunner().invoke(app, ["cluster", "doctor", "cluster-a", "--no-pod"])
    assert result.exit_code == 6 and "? least privilege" in result.stdout


def test_the_doctor_for_people(kube: FakeKubernetes, config: Path) -> None:
    kube.rules = []
    result = CliRunner().invoke(app, ["cluster", "doctor", "cluster-a", "--no-pod"])
    assert result.exit_code == 1
    assert "✗ permissions" in result.stdout and "k8s/provider" in result.stdout and "✓ reachable" in result.stdout
    checks = [line.split()[0] for line in result.stdout.splitlines() if line.strip()[:1] in ("✓", "✗")]
    assert checks.count("✗") == 1 and f"1 of {len(checks)} " in result.stdout


def test_a_sweep_by_hand(kube: FakeKubernetes, config: Path) -> None:
    for name, expires in (("old", 1), ("young", int(time.time()) + 3600)):
        metadata = {"labels": {"app.kubernetes.io/managed-by": "plumbline"}, "annotations": {"plumbline/expires": str(expires)}}
        kube.store.create("services", "plumbline", {"metadata": {"name": name, **metadata}, "spec": {"clusterIP": "None"}})
    result = CliRunner().invoke(app, ["cluster", "sweep", "cluster-a", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["deleted"]) == (0, ["Service old"])
    again = CliRunner().invoke(app, ["cluster", "sweep", "cluster-a"])
    assert again.exit_code == 0 and "Service" not in again.stdout
    kube.forbidden.add(("list", "pods"))
    refused = CliRunner().invoke(app, ["cluster", "sweep", "cluster-a"])
    assert refused.exit_code == 1 and "list Pod: " in refused.stderr and "apply k8s/provider again" in refused.stderr


def test_a_kubeconfig_is_written_for_its_owner_alone_and_never_over_another_file(kube: FakeKubernetes, config: Path) -> None:
    kube.put("serviceaccounts", "plumbline", {"metadata": {"name": SERVICE_ACCOUNT}})
    (config / "admin").write_text(json.dumps(kube.kubeconfig()))
    words = [
        "cluster",
        "kubeconfig",
        "cluster-a",
        "--admin-kubeconfig",
        str(config / "admin"),
        "--as",
        "connection",
        "--out",
        str(config / "c.json"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    assert (config / "c.json").stat().st_mode & 0o777 == 0o600
    assert kube.token not in result.stdout + result.stderr and "airflow connections import" in result.stderr
    (connection_id,) = json.loads((config / "c.json").read_text())
    assert connection_id == "k8s_a"
    written = (config / "c.json").read_text()
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2 and (config / "c.json").read_text() == written


def test_what_was_made_can_be_used(kube: FakeKubernetes, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_K8S_A", "")
    monkeypatch.delenv("AIRFLOW_CONN_K8S_A")
    kube.put("serviceaccounts", "plumbline", {"metadata": {"name": SERVICE_ACCOUNT}})
    (config / "admin").write_text(json.dumps(kube.kubeconfig()))
    words = [
        "cluster",
        "kubeconfig",
        "cluster-a",
        "--admin-kubeconfig",
        str(config / "admin"),
        "--long-lived",
        "--out",
        str(config / "kubeconfig"),
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    result = CliRunner().invoke(app, ["cluster", "doctor", "cluster-a", "--no-pod", "--kubeconfig", str(config / "kubeconfig"), "--json"])
    assert result.exit_code == 0, result.stdout
    os.environ.pop("AIRFLOW_CONN_K8S_A", None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["doctor", "nobody"], 'no provider is called "nobody"; expected one of cluster-a'),
        (["doctor", "local-1core"], "expected a provider of kubernetes, slurm or ssh"),
        (["doctor", "cluster-a", "--kubeconfig", "nowhere.yaml"], "nowhere.yaml is not a file"),
        (["kubeconfig", "cluster-a", "--lifetime", "90"], "has no unit; expected a duration such as 90d"),
        (["kubeconfig", "cluster-a", "--lifetime", "5min"], "live less than 600 s"),
        (["kubeconfig", "cluster-a", "--admin-kubeconfig", "nowhere.yaml"], "--admin-kubeconfig"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_runs(kube: FakeKubernetes, config: Path, words: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["cluster", *words])
    assert result.exit_code == 2 and told in result.stderr
    assert kube.requests == []
