"""A probe on a cluster that answers over HTTP: its pod, its document, and that nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.trials import H100, a_trial, cluster_provider, declared

from plumbline.declarations import KubernetesLauncher, Provider
from plumbline.harness.run import quick_probe, store_probe
from plumbline.launch.cluster import launcher
from plumbline.launch.cluster.api import ClusterApi
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.operate.sweep import sweep_expired
from plumbline.launch.cluster.short_pod import PodPatience
from plumbline.launch.failures import ApiRefused, HarnessError, ImageError, Interrupted, OutOfMemory, Unreachable
from plumbline.launch.launcher import ProbeSkipped
from plumbline.results.probe_document import ProbeDocument

QUICK = PodPatience(node_s=0.3, start_s=1.0, trouble_s=0.1, gone_s=2.0, poll_s=0.02)


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json())
        yield running


def harness(run: PodRun) -> int:
    """What the harness does in the pod: it looks, within its limit, and stores what it saw."""
    arguments = run.row["spec"]["containers"][0]["args"]
    folder = Path(arguments[1].removeprefix("file://")).parents[2]
    store_probe(quick_probe(folder, float(arguments[3])), arguments[1])
    return 0


def at(store: Path, accelerator: dict[str, Any] | None = None, **settings: Any) -> Provider:
    store.mkdir(exist_ok=True)
    return cluster_provider(results_url=store.as_uri(), **({"accelerator": accelerator} if accelerator else {}), **settings)


def launcher_of(provider: Provider) -> KubernetesLauncher:
    assert isinstance(provider.launcher, KubernetesLauncher)
    return provider.launcher


def probe(provider: Provider) -> ProbeDocument | ProbeSkipped:
    return launcher.probe_cluster(declared(), provider, launcher_of(provider), datetime.now(timezone.utc), 0.001, QUICK)


def test_one_pod_looks_and_is_gone(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-probe-*", Script().started().runs(harness))
    seen = probe(at(tmp_path / "store"))
    assert isinstance(seen, ProbeDocument) and seen.environment.facts["os.kernel"]
    assert kube.leftovers() == []
    (made,) = [c for c in kube.called("POST */pods") if not c.query]
    pod = made.body
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["python", "-m", "plumbline.harness", "probe"] and container["args"][2:] == ["--limit", "0.001"]
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["automountServiceAccountToken"] is False
    assert pod["metadata"]["labels"]["plumbline/provider"] == "cluster-a" and "plumbline/workload" not in pod["metadata"]["labels"]
    assert pod["spec"]["activeDeadlineSeconds"] > 0 and "plumbline/trial" not in pod["metadata"]["annotations"]


def test_it_takes_one_gpu_of_a_node_of_eight(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-probe-*", Script().started().runs(harness))
    probe(at(tmp_path / "store", H100))
    (made,) = [c for c in kube.called("POST */pods") if not c.query]
    resources = made.body["spec"]["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"] == "1"


def test_trials_that_run_there_go_first(kube: FakeKubernetes, tmp_path: Path) -> None:
    provider = at(tmp_path / "store")
    kube.script("pl-*", Script().started())
    row = pod_manifest(a_trial(provider=provider), requested_at=datetime.now(timezone.utc))
    ClusterApi("k8s_a", "plumbline").create(row)
    seen = probe(provider)
    assert isinstance(seen, ProbeSkipped) and "pl-" in seen.why
    assert len([c for c in kube.called("POST */pods") if not c.query]) == 1, "the trial's"
    kube.become("pl-*", Script().succeeded())
    kube.script("pl-probe-*", Script().started().runs(harness))
    kube.wait_for(lambda: isinstance(probe(provider), ProbeDocument), "a probe after the trial")


def test_a_cluster_without_room_puts_it_off(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-probe-*", Script().unschedulable())
    seen = probe(at(tmp_path / "store"))
    assert isinstance(seen, ProbeSkipped) and "within 0.3 s" in seen.why
    assert kube.leftovers() == []


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        (Script().started().failed(1), Unreachable),
        (Script().started().oom_killed(), OutOfMemory),
        (Script().scheduled().image_pull_fails(), ImageError),
        (Script().started().vanishes(), Interrupted),
        (Script().started().succeeded(), HarnessError),
    ],
)
def test_every_other_end_is_a_failure_and_leaves_nothing(
    kube: FakeKubernetes, tmp_path: Path, script: Script, failure: type[Exception]
) -> None:
    kube.script("pl-probe-*", script)
    with pytest.raises(failure):
        probe(at(tmp_path / "store"))
    assert kube.leftovers() == []


def test_a_cluster_that_refuses_the_pod_is_told(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.forbidden.add(("create", "pods"))
    with pytest.raises(ApiRefused):
        probe(at(tmp_path / "store"))


def test_one_that_was_left_behind_is_swept_when_its_time_has_passed(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("pl-probe-*", Script().started().runs(harness))
    kube.forbidden.add(("delete", "pods"))
    probe(at(tmp_path / "store"))
    kube.forbidden.clear()
    launcher = launcher_of(at(tmp_path / "store"))
    assert sweep_expired(launcher) == [] and len(kube.leftovers()) == 1
    assert len(sweep_expired(launcher, time.time() + 3 * 86400)) == 1
