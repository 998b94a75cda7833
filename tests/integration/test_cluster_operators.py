"""The operators' whole life in Airflow, deferral and retries included, against a Kubernetes API that misbehaves on demand."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, Script
from tests.fakes.kubernetes_api.script import NO_GPUS
from tests.fakes.kubernetes_api.store import Row
from tests.fakes.pod_harness import harness
from tests.fakes.trials import EXTERNAL, a_trial, cluster_provider, serving

from plumbline.launch import stores
from plumbline.launch.remote import UNFINISHED
from plumbline.results import LaunchRecord

NS = "plumbline"
SECRET = "planted-3f9ac1"
HPA = {"by": "hpa", "cpu": "70%"}
CONTEXT = {"ti": SimpleNamespace(run_id="manual__1", max_tries=1, task=SimpleNamespace(retries=1))}
"""What Airflow hands to an operator, as far as ours reads it."""
GANG = {"parallelism": {"strategy": "ddp", "nodes": 2, "processes": 1}}
DAG_FILE = """
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from plumbline.declarations import Provider
from plumbline.airflow.operators import {operator}
from plumbline.airflow.defaults import launch_settings

provider = Provider.model_validate_json(Path({provider!r}).read_text())
with DAG({dag_id!r}, schedule=None) as dag:
    settings = {{**launch_settings(provider), "pool": "default_pool", "retry_delay": timedelta(0), "retry_exponential_backoff": False}}
    {operator}(task_id="run", provider=provider, spec={spec!r}, **settings)
"""


@pytest.fixture(scope="module")
def airflow_home() -> Iterator[Path]:
    """A metadata database of its own kind is there already: every test module shares the home that conftest made."""
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    from airflow.utils import db

    db.initdb()
    dags = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    dags.mkdir(exist_ok=True)
    yield dags
    for file in dags.glob("*.py"):
        file.unlink()


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as running:
        running.token = SECRET
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json(NS))
        yield running


class World:
    """One planned trial on one provider, and a DAG that runs it."""

    def __init__(
        self, kube: FakeKubernetes, dags: Path, folder: Path, declare: dict[str, Any] | None = None, kind: str = "training", **launcher: Any
    ) -> None:
        self.kube = kube
        settings = {"poll": "1s", "unreachable_timeout": "2s", "schedule_timeout": "60s", "startup_timeout": "60s", "timeout": "60s"}
        self.provider = cluster_provider(**{"results_url": (folder / "away").as_uri(), "retries": 1, **settings, **launcher})
        self.trial = a_trial(kind, self.provider, declare)
        self.home = stores.home()
        self.home.put(stores.planned_path(self.trial.campaign_id, self.trial.trial_id), self.trial.model_dump_json().encode())
        (folder / "provider.json").write_text(self.provider.model_dump_json())
        self.dag_id = "trial_" + folder.name
        self.file = dags / f"{self.dag_id}.py"
        kind = "TrialGangOperator" if declare and "parallelism" in declare else "TrialPodOperator"
        spec = {"campaign_id": self.trial.campaign_id, "trial_id": self.trial.trial_id, "title": "a trial"}
        text = DAG_FILE.format(operator=kind, provider=str(folder / "provider.json"), dag_id=self.dag_id, spec=spec)
        self.file.write_text(text)

    def run(self) -> str:
        """Run the DAG to its end; the task's state."""
        specification = importlib.util.spec_from_file_location(self.dag_id, self.file)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        run = module.dag.test()
        (task,) = run.get_task_instances()
        return str(task.state)

    @property
    def attempts(self) -> list[LaunchRecord]:
        found = [self.home.launch(folder) for folder in self.home.attempts(self.trial.campaign_id, self.trial.trial_id)]
        return [record for record in found if record is not None]

    @property
    def classes(self) -> list[str | None]:
        return [record.failure_class for record in self.attempts]


@pytest.fixture
def make(kube: FakeKubernetes, airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    # `dag.test()` has no scheduler that must take note of a deferral.
    monkeypatch.setattr("plumbline.airflow.triggers.EARLIEST_S", 0.0)
    made: list[World] = []

    def world(**settings: Any) -> World:
        made.append(World(kube, airflow_home, tmp_path, **settings))
        return made[-1]

    yield world
    for each in made:
        each.file.unlink()


def test_a_pod_is_measured_recorded_and_gone(
    make: Any, kube: FakeKubernetes, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from plumbline.airflow.operators import LaunchOperator

    kube.script("*", Script().started().runs(harness(lasts_s=1.5)))
    world = make()
    resumed = Mock(side_effect=LaunchOperator.trigger_reentry, autospec=True)
    monkeypatch.setattr(LaunchOperator, "trigger_reentry", lambda *given: resumed(*given))
    assert world.run() == "success"
    assert resumed.call_count == 1, "each execution of the task costs a fifth of a core's second"
    assert kube.leftovers() == []
    (record,) = world.attempts
    assert (record.failure_class, record.exit_code, record.pods[0].node) == (None, 0, "node-1")
    (document,) = [world.home.collected(f) for f in world.home.announced(world.trial.campaign_id, world.trial.trial_id)]
    assert document.validity.status == "valid" and document.launch == record, "the task collects its own trial"
    names = [event.name for event in record.events]
    assert names[0] == "requested" and names[-1] == "deleted" and {"scheduled", "started", "finished"} <= set(names)
    (created,) = [call.body for call in kube.called(f"POST /api/v1/namespaces/{NS}/pods")]
    assert created["metadata"]["labels"]["dag_id"] == world.dag_id, "from a pod one finds the task"
    assert created["spec"]["containers"][0]["name"] == "harness" and created["spec"]["restartPolicy"] == "Never"
    log = "".join(capfd.readouterr())
    assert "half" in log and "measured" in log, "the task's log tells the progress and the last words"
    assert '"resources"' not in log and "securityContext" not in log, "and no pod"
    kept = [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.log"), Path(os.environ["AIRFLOW_HOME"]) / "airflow.db"]
    assert SECRET not in log and not any(SECRET.encode() in file.read_bytes() for file in kept), "nor the cluster's token, anywhere"


def test_servers_are_a_deployment_whose_every_number_is_stored(make: Any, kube: FakeKubernetes) -> None:
    scaled = threading.Event()
    kube.script("*", Script().started().runs(lambda run: harness()(run) if scaled.wait(200.0) else 1))
    world = make(kind="inference", declare=EXTERNAL, serving=serving(scaling={"maximum": 3, **HPA}))

    def counts() -> list[tuple[int, int]]:
        folders = world.home.announced(world.trial.campaign_id, world.trial.trial_id)
        return [(count.ready, count.wanted) for folder in folders for count in world.home.replicas(folder)]

    def scaler() -> None:
        kube.wait_for(lambda: counts() == [(0, 1)], "the Deployment was seen", timeout_s=200.0)
        ((deployment, scaler),) = [(d, kube.store.list("horizontalpodautoscalers", NS)) for d in kube.store.list("deployments", NS)]
        assert [each["spec"]["scaleTargetRef"]["name"] for each in scaler] == [deployment["metadata"]["name"]]
        for ready, wanted in ((1, 1), (1, 3), (3, 3)):
            change = {"spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}
            kube.store.patch("deployments", NS, deployment["metadata"]["name"], change)
            kube.wait_for(lambda now=(ready, wanted): counts()[-1] == now, f"{ready} of {wanted} are stored", timeout_s=200.0)
        scaled.set()

    meanwhile = threading.Thread(target=scaler)
    meanwhile.start()
    assert world.run() == "success"
    meanwhile.join()
    assert counts() == [(0, 1), (1, 1), (1, 3), (3, 3)], "a line at every change"
    assert kube.leftovers() == []


LONG_AGO = "2020-01-01T00:00:00Z"
"""When the servers' pods were made: no clock of the test's then decides whether they are late."""


def _no_room(kube: FakeKubernetes, deployment: Row) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_GPUS}
    kube.event(_server(kube, deployment, {"conditions": [said]}), "FailedScheduling", NO_GPUS, kind="Warning", by="default-scheduler")


def _over_quota(kube: FakeKubernetes, deployment: Row) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": 'pods "pl-server-x2" is forbidden: exceeded quota: gpus'}
    kube.store.patch("deployments", NS, deployment["metadata"]["name"], {"status": {"conditions": [failure]}})
    _server(kube, deployment, {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LONG_AGO}]})


def _server(kube: FakeKubernetes, deployment: Row, status: Row) -> Row:
    """One of the two pods that the Deployment is to have."""
    template = deployment["spec"]["template"]
    about = {**template["metadata"], "name": "pl-server-x1", "creationTimestamp": LONG_AGO}
    return kube.put("pods", NS, {**template, "metadata": about, "status": {"phase": "Pending", **status}})


@pytest.mark.parametrize(("happens", "expected"), [(_no_room, "insufficient_capacity"), (_over_quota, "quota_exceeded")])
def test_servers_that_get_no_node_end_the_trial_as_its_own_pod_would(
    make: Any, kube: FakeKubernetes, happens: Callable[[FakeKubernetes, Row], None], expected: str
) -> None:
    over = threading.Event()
    kube.script("*", Script().started().runs(lambda run: 0 if over.wait(200.0) else 1))
    world = make(
        kind="inference",
        declare=EXTERNAL,
        serving=serving(scaling={"by": "none", "minimum": 2, "maximum": 4}),
        retries=0,
        operated_by="provider",
    )

    def cluster() -> None:
        kube.wait_for(lambda: kube.store.list("deployments", NS), "the Deployment", timeout_s=200.0)
        happens(kube, kube.store.list("deployments", NS)[0])

    meanwhile = threading.Thread(target=cluster)
    meanwhile.start()
    assert world.run() == "failed"
    meanwhile.join()
    over.set()
    (record,) = world.attempts
    assert (record.failure_class, str(record.failure_detail).split(": ")[0]) == (expected, "servers"), record.failure_detail
    assert [pod.name for pod in record.pods if "server" in pod.name] == [], "the record is of the trial's own pod"


@pytest.mark.parametrize(
    ("group", "scaling", "install"),
    [("keda.sh", {"by": "keda", "triggers": [{"type": "cron", "metadata": {}}]}, "KEDA"), ("metrics.k8s.io", HPA, "a metrics server")],
)
def test_a_cluster_without_what_its_scaler_needs_is_a_bad_declaration(
    make: Any, kube: FakeKubernetes, group: str, scaling: dict[str, Any], install: str
) -> None:
    kube.absent.add(group)
    world = make(kind="inference", declare=EXTERNAL, serving=serving(scaling={"maximum": 3, **scaling}), retries=0)
    assert world.run() == "failed"
    (record,) = world.attempts
    assert record.failure_class == "bad_declaration" and f"install {install}" in str(record.failure_detail)
    assert kube.leftovers() == []


def test_a_failure_is_raised_as_its_class_and_only_some_are_tried_again(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().oom_killed())
    world = make()
    assert world.run() == "failed"
    assert world.classes == ["out_of_memory"], "not tried again"
    assert kube.leftovers() == []


@pytest.mark.full
def test_a_preempted_pod_is_recorded_and_tried_again(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().runs(harness()))
    kube.script("*a1-*", Script().started().after(1.5).preempted())
    world = make()
    assert world.run() == "success"
    assert world.classes == ["interrupted", None]
    assert "reempt" in str(world.attempts[0].failure_detail)
    assert kube.leftovers() == []


def test_no_room_leaves_nothing_and_says_what_was_missing(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().unschedulable())
    world = make(schedule_timeout="2s", retries=0)
    assert world.run() == "failed"
    (record,) = world.attempts
    assert record.failure_class == "launch_timeout" and "Insufficient nvidia.com/gpu" in str(record.failure_detail)
    assert kube.leftovers() == []


def test_a_refused_pod_is_a_recorded_attempt(make: Any, kube: FakeKubernetes) -> None:
    kube.quota(NS, pods="0")
    world = make(retries=0)
    assert world.run() == "failed"
    (record,) = world.attempts
    assert record.failure_class == "quota_exceeded" and "exceeded quota" in str(record.failure_detail)
    assert record.pods == () and kube.leftovers() == []


def test_a_connection_that_does_not_exist_is_a_bad_declaration(make: Any, kube: FakeKubernetes) -> None:
    world = make(connection="k8s_nobody")
    assert world.run() == "failed"
    (record,) = world.attempts
    assert record.failure_class == "bad_declaration" and "plumbline cluster kubeconfig" in str(record.failure_detail)
    assert kube.requests == []


@pytest.mark.full
def test_a_pod_that_finished_and_vanished_is_still_a_result(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().call(lambda run: harness(lasts_s=1.2)(run) and None).vanishes())
    world = make()
    assert world.run() == "success"
    assert world.classes == [None]


@pytest.mark.full
def test_a_cluster_that_goes_away_is_recorded_and_the_pod_taken_up_when_it_is_back(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().runs(harness(lasts_s=1.0)))
    world = make(retries=3)

    def outage() -> None:
        kube.wait_for(
            lambda: kube.pods() and [p["status"]["phase"] for p in kube.pods().values()] == ["Running"], "the pod runs", timeout_s=200.0
        )
        kube.down()
        kube.wait_for(lambda: world.classes == ["unreachable"], "it was given up", timeout_s=200.0)
        kube.up()

    meanwhile = threading.Thread(target=outage)
    meanwhile.start()
    assert world.run() == "success"
    meanwhile.join()
    assert world.classes == [None], "one attempt, one pod, one bill"
    assert len([call for call in kube.called(f"POST /api/v1/namespaces/{NS}/pods") if call.code == 201]) == 1
    assert kube.leftovers() == []


def test_what_a_dead_worker_left_is_taken_up_by_the_next_try(make: Any, kube: FakeKubernetes) -> None:
    """The worker is killed after it created the pod, before it deferred: the pod goes on without anybody."""
    from plumbline.launch.cluster.launcher import ClusterLauncher
    from plumbline.launch.cluster.manifests.trial_pod import pod_manifest

    kube.script("*", Script().started().runs(harness(lasts_s=0.5)))
    world = make()
    attempt, _ = ClusterLauncher().adopt({"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id})
    attempt.create_key_secret(attempt.api())
    attempt.api().create(pod_manifest(attempt.trial, requested_at=attempt.requested_at))
    assert world.run() == "success"
    assert world.classes == [None]
    assert len([call for call in kube.called(f"POST /api/v1/namespaces/{NS}/pods") if call.code == 201]) == 1


def test_a_cluster_that_does_not_let_us_look_is_named_as_such(make: Any, kube: FakeKubernetes) -> None:
    from plumbline.airflow.operators import TrialPodOperator
    from plumbline.launch.cluster.launcher import ClusterLauncher
    from plumbline.launch.failures import BadDeclaration, Unreachable

    world = make()
    spec = {"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id, "title": "a trial"}
    ClusterLauncher().adopt(spec)
    operator = TrialPodOperator(task_id="run", provider=world.provider, spec=spec)
    kube.forbidden.add(("list", "pods"))
    with pytest.raises(BadDeclaration, match="cannot list resource"):
        operator.open(CONTEXT)
    kube.token = "rotated, and not told"
    with pytest.raises(Unreachable, match="HTTP 401"):
        operator.open(CONTEXT)
    assert len(world.attempts) == 1, "no further attempt before it is known what became of this one"


def test_a_trigger_that_breaks_leaves_nothing(make: Any, kube: FakeKubernetes) -> None:
    """As Airflow does it: the task is resumed only in order to fail it."""
    from airflow.sdk.exceptions import TaskDeferralTimeout

    from plumbline.airflow.operators import TrialPodOperator
    from plumbline.launch.cluster.launcher import ClusterLauncher
    from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
    from plumbline.launch.failures import Interrupted

    kube.script("*", Script().started())
    world = make()
    spec = {"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id, "title": "a trial"}
    attempt, _ = ClusterLauncher().adopt(spec)
    attempt.create_key_secret(attempt.api())
    attempt.api().create(pod_manifest(attempt.trial, requested_at=attempt.requested_at))
    operator = TrialPodOperator(task_id="run", provider=world.provider, spec=spec)
    with pytest.raises(Interrupted, match="Trigger timeout") as failure:
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, {})
    assert isinstance(failure.value.__context__, TaskDeferralTimeout)
    assert world.classes == ["interrupted"] and kube.leftovers() == []


def test_a_killed_task_deletes_at_once_and_goes_no_further(make: Any, kube: FakeKubernetes) -> None:
    from plumbline.airflow.operators import TrialPodOperator
    from plumbline.launch.failures import Interrupted

    world = make()
    spec = {"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id, "title": "a trial"}
    operator = TrialPodOperator(task_id="run", provider=world.provider, spec=spec)
    operator.on_kill()  # before anything was announced there is nothing to do
    operator.open(CONTEXT)
    operator.create(lambda: operator.attempt.api().create(_manifest(operator)))
    with pytest.raises(Interrupted):
        operator.on_kill()
    kube.wait_for(lambda: kube.leftovers() == [], "nothing is left")
    assert world.attempts[0].failure_detail == UNFINISHED


def test_a_gang_of_two_is_measured_together_and_gone(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().runs(harness(lasts_s=1.5)))
    world = make(declare=GANG)
    assert world.run() == "success"
    (record,) = world.attempts
    assert [(pod.rank, pod.exit_code) for pod in record.pods] == [(0, 0), (1, 0)]
    assert kube.leftovers() == []
    created = [call.body for call in kube.called(f"POST /api/v1/namespaces/{NS}/pods")]
    assert {body["metadata"]["ownerReferences"][0]["kind"] for body in created} == {"Service"}


@pytest.mark.full
def test_a_gang_of_which_one_pod_is_refused_is_not_kept(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started())
    kube.quota(NS, pods="1")
    world = make(declare=GANG, retries=0)
    assert world.run() == "failed"
    assert world.classes == ["quota_exceeded"]
    assert kube.leftovers() == []


@pytest.mark.full
def test_a_part_of_a_gang_is_completed_by_the_next_try(make: Any, kube: FakeKubernetes) -> None:
    """The worker died between the Service with rank 0, and rank 1."""
    from plumbline.launch.cluster.launcher import ClusterLauncher
    from plumbline.launch.cluster.manifests import gang

    kube.script("*", Script().started().runs(harness(lasts_s=1.5)))
    world = make(declare=GANG)
    attempt, _ = ClusterLauncher().adopt({"campaign_id": world.trial.campaign_id, "trial_id": world.trial.trial_id})
    attempt.create_key_secret(attempt.api())
    wanted = gang.gang_manifests(attempt.trial, requested_at=attempt.requested_at)
    owner = attempt.api().create(wanted.owner)
    attempt.api().create(gang.with_owner(wanted.pods, owner)[0])
    assert world.run() == "success"
    assert world.classes == [None]
    created = [call.code for call in kube.called(f"POST /api/v1/namespaces/{NS}/pods")]
    assert created.count(201) == 2 and kube.leftovers() == []


@pytest.mark.full
def test_a_gang_by_a_controller(make: Any, kube: FakeKubernetes) -> None:
    kube.script("*", Script().started().runs(harness(lasts_s=1.5)))
    world = make(declare=GANG, gang="jobset")
    assert world.run() == "success"
    assert [pod.rank for pod in world.attempts[0].pods] == [0, 1]
    assert kube.leftovers() == []


def _manifest(operator: Any) -> dict[str, Any]:
    from plumbline.launch.cluster.manifests.trial_pod import pod_manifest

    return pod_manifest(operator.attempt.trial, requested_at=operator.attempt.requested_at)
