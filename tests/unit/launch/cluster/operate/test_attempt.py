"""An attempt is announced before anything exists, taken up by whoever comes, and closed so that nothing is left and the record says why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.pod_harness import harness, signed
from tests.fakes.trials import EXTERNAL, a_trial, cluster_provider, serving
from tests.golden import Golden

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.cluster import names
from plumbline.launch.cluster.launcher import ClusterLauncher
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.closing import close_attempt
from plumbline.launch.cluster.operate.sweep import sweep_expired
from plumbline.launch.collect import collect
from plumbline.launch.failures import BadDeclaration, Interrupted, Unreachable
from plumbline.launch.remote import UNFINISHED
from plumbline.results import Environment, LaunchRecord, Reason, ResultDocument, ResultStore, Validity, log_transport

NS = "plumbline"


class World:
    """A planned trial, its two stores, its cluster."""

    def __init__(self, kube: FakeKubernetes, folder: Path, declare: Mapping[str, Any] = EXTERNAL, **launcher: object) -> None:
        self.kube = kube
        self.away = ResultStore((folder / "away").as_uri())
        self.provider = cluster_provider(results_url=self.away.url, unreachable_timeout="1s", **launcher)
        self.trial = a_trial("inference", self.provider, declare) if "serving" in launcher else a_trial(provider=self.provider)
        self.spec = {"campaign_id": self.trial.campaign_id, "trial_id": self.trial.trial_id, "title": "a trial"}
        self.home = stores.home()
        self.home.put(stores.planned_path(self.trial.campaign_id, self.trial.trial_id), self.trial.model_dump_json().encode())

    def begin(self) -> Attempt:
        """The next attempt, its pod created."""
        attempt, record = ClusterLauncher().adopt(self.spec)
        assert record is None
        ClusterLauncher().submit(attempt)
        return attempt

    def pod_is(self, phase: str) -> None:
        self.kube.wait_for(lambda: [p["status"]["phase"] for p in self.kube.pods().values()] == [phase], f"the pod is {phase}")

    def record(self, attempt: int = 1) -> LaunchRecord:
        found = self.home.launch(self.home.folder(self.trial.model_copy(update={"attempt": attempt})))
        assert found is not None
        return found


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    with FakeKubernetes() as running:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_A", running.connection_json(NS))
        yield running


@pytest.fixture
def world(kube: FakeKubernetes, tmp_path: Path) -> World:
    return World(kube, tmp_path)


def test_an_attempt_is_announced_in_both_stores_before_anything_exists(world: World) -> None:
    attempt, record = ClusterLauncher().adopt(world.spec)
    assert record is None and attempt.trial.attempt == 1
    folder = world.home.folder(attempt.trial)
    assert world.home.trial(folder) == world.away.trial(folder) == attempt.trial
    assert (world.record().failure_class, world.record().failure_detail) == ("interrupted", UNFINISHED)
    assert [event.name for event in world.record().events] == ["requested"]
    assert world.kube.requests == []


def test_a_measured_trial_leaves_nothing_but_its_record(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    record = close_attempt(attempt)
    assert world.kube.leftovers() == []
    assert record == world.record()
    assert (record.failure_class, record.exit_code, record.launcher) == (None, 0, "kubernetes")
    assert [pod.node for pod in record.pods] == ["node-1"]
    assert record.events[-1].name == "deleted"
    assert record.log_tail == "measuring\nmeasured", "progress is for machines"
    log = world.home.get(f"{world.home.folder(attempt.trial)}/launch.log").decode()
    assert log.startswith(f"== {names.pod_name(attempt.trial, 0)}\n") and "plumbline-progress" in log


def test_what_the_cluster_forgets_is_kept_from_the_start_on(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness(lasts_s=0.5)))
    attempt = world.begin()
    world.pod_is("Running")
    attempt.started(LaunchObservation(expected=1))
    kept = ClusterLauncher().newest(world.spec)
    assert kept is not None and kept.started_at == attempt.started_at and kept.requested_at == attempt.requested_at
    assert world.record().failure_detail == UNFINISHED and world.record().pods[0].node == "node-1"
    for key in [key for key in world.kube.store.rows if key[0] == "events"]:
        del world.kube.store.rows[key]
    world.pod_is("Succeeded")
    record = close_attempt(kept)
    assert "Scheduled" in [notice.reason for notice in record.pods[0].notices]
    assert record.failure_class is None


def test_a_running_attempt_is_taken_up_again(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness(lasts_s=0.3)))
    first = world.begin()
    again, record = ClusterLauncher().adopt(world.spec)
    assert record is None and again.trial == first.trial
    again.create_key_secret(again.api())
    again.api().create(pod_manifest(again.trial, requested_at=again.requested_at))
    assert len(world.kube.pods()) == 1
    world.pod_is("Succeeded")
    assert ClusterLauncher().adopt(world.spec)[0].trial == first.trial, "a finished pod is adopted too: its result lies in the store"


def test_a_measured_attempt_that_nobody_recorded_is_the_result(world: World) -> None:
    """The worker died between the deletion of the pod and the record."""
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    attempt.api().remove(None, names.selector(attempt.trial), wait_s=5.0)
    again, record = ClusterLauncher().adopt(world.spec)
    assert again.trial == attempt.trial
    assert record is not None and record.failure_class is None
    assert world.record() == record


def test_a_retry_takes_what_an_earlier_try_recorded_and_a_cleared_task_measures_again(world: World) -> None:
    """The worker stored the end, but Airflow's API did not hear of it."""
    world.kube.script("*", Script().started().runs(harness()))
    first, record = ClusterLauncher().adopt(world.spec, "run-1 0")
    assert record is None
    first.create_key_secret(first.api())
    first.api().create(pod_manifest(first.trial, requested_at=first.requested_at))
    world.pod_is("Succeeded")
    closed = close_attempt(first)
    again, record = ClusterLauncher().adopt(world.spec, "run-1 0")
    assert (again.trial.attempt, record) == (1, closed)
    world.home.put_launch(first.trial, closed.model_copy(update={"failure_class": "interrupted", "failure_detail": "its task was ended"}))
    again, record = ClusterLauncher().adopt(world.spec, "run-1 0")
    assert (again.trial.attempt, record) == (1, closed), "it was measured, whatever happened to its task then"
    cleared, record = ClusterLauncher().adopt(world.spec, "run-1 1")
    assert (cleared.trial.attempt, record) == (2, None)


def test_an_attempt_of_which_nothing_is_left_is_recorded_and_followed_by_the_next(world: World) -> None:
    ClusterLauncher().adopt(world.spec)
    following, record = ClusterLauncher().adopt(world.spec)
    assert record is None and following.trial.attempt == 2
    assert world.record(1).failure_class == "interrupted" and world.record(1).failure_detail != UNFINISHED
    assert world.record(2).failure_detail == UNFINISHED


def test_pods_that_are_being_deleted_are_not_taken_up(world: World) -> None:
    world.kube.termination_s = 0.3
    world.kube.script("*", Script().started())
    attempt = world.begin()
    world.pod_is("Running")
    ClusterLauncher().cancel(ClusterLauncher().ticket(attempt), patience_s=2.0, timeout_s=2.0)
    following, _ = ClusterLauncher().adopt(world.spec)
    assert following.trial.attempt == 2
    assert world.kube.leftovers() == []
    assert world.record(1).failure_class == "interrupted"


def test_a_closed_attempt_is_not_taken_up(world: World) -> None:
    world.kube.script("*", Script().started().oom_killed())
    attempt = world.begin()
    world.pod_is("Failed")
    assert close_attempt(attempt).failure_class == "out_of_memory"
    following, record = ClusterLauncher().adopt(world.spec)
    assert record is None and following.trial.attempt == 2
    assert world.record(1).failure_class == "out_of_memory"


def test_an_attempt_that_was_given_up_is_taken_up_if_it_still_lives(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness(lasts_s=0.2)))
    attempt = world.begin()
    world.kube.down()
    stop = StopCause("unreachable", "no answer for 900 s")
    record = close_attempt(attempt, stop=stop)
    assert record.failure_class == "unreachable" and stop.detail in str(record.failure_detail)
    world.kube.up()
    again, over = ClusterLauncher().adopt(world.spec)
    assert over is None and again.trial == attempt.trial
    world.pod_is("Succeeded")
    assert close_attempt(again).failure_class is None
    assert world.kube.leftovers() == []


def test_an_attempt_that_was_given_up_and_is_gone_stays_as_it_was_recorded(world: World) -> None:
    world.kube.script("*", Script().started())
    attempt = world.begin()
    world.pod_is("Running")
    close_attempt(attempt, stop=StopCause("unreachable", "no answer for 900 s"))
    before = world.record(1)
    assert before.failure_class == "unreachable"
    assert ClusterLauncher().adopt(world.spec)[0].trial.attempt == 2
    assert world.record(1) == before


@pytest.mark.fault("the record of a launch fails", ends="its failure", keeps="the pods are deleted all the same")
def test_deletion_is_tried_whatever_else_fails(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    world.kube.forbidden |= {("get", "pods/log"), ("list", "events"), ("get", "nodes")}
    record = close_attempt(attempt)
    assert world.kube.leftovers() == []
    assert record.failure_class is None and record.log_tail == ""


def test_a_deletion_that_is_forbidden_is_the_records_failure(world: World, golden: Golden) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    world.kube.forbidden.add(("delete", "pods"))
    record = close_attempt(attempt)
    assert record.failure_class == "bad_declaration"
    golden("launch.left_behind", str(record.failure_detail), pod=attempt.pod_names[0])


def test_a_result_store_that_cannot_be_written_is_recorded_and_nothing_is_created(world: World, tmp_path: Path) -> None:
    (tmp_path / "away").write_text("a file where the store should be")
    with pytest.raises((Unreachable, BadDeclaration)) as refusal:
        ClusterLauncher().adopt(world.spec)
    assert world.kube.requests == []
    assert world.record().failure_detail == str(refusal.value) and world.away.url in str(refusal.value)


def test_a_store_whose_credentials_do_not_suit_it_is_a_bad_declaration(
    kube: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "aws"}))
    world = World(kube, tmp_path, results_connection="store")
    with pytest.raises(BadDeclaration, match=r"connection store\b.*results_connection") as unsuitable:
        ClusterLauncher().adopt(world.spec)
    assert world.record().failure_class == "bad_declaration"
    monkeypatch.delenv("AIRFLOW_CONN_STORE")
    with pytest.raises(BadDeclaration, match="connection store") as undefined:
        ClusterLauncher().adopt(world.spec)
    assert str(undefined.value) != str(unsuitable.value)


def test_killing_asks_for_the_deletion_and_touches_no_record(world: World) -> None:
    world.kube.script("*", Script().started())
    attempt = world.begin()
    world.pod_is("Running")
    ClusterLauncher().cancel(ClusterLauncher().ticket(attempt), patience_s=2.0, timeout_s=2.0)
    world.kube.wait_for(lambda: world.kube.leftovers() == [], "nothing is left")
    assert world.record().failure_detail == UNFINISHED


def test_the_state_holds_nothing_of_what_the_pods_were_given(world: World) -> None:
    world.kube.script("*", Script().started().runs(harness()))
    attempt = world.begin()
    world.pod_is("Succeeded")
    close_attempt(attempt)
    state = world.home.get(f"{world.home.folder(attempt.trial)}/cluster.json").decode()
    assert '"env"' not in state and '"args"' not in state and "PLUMBLINE_" not in state


@pytest.mark.parametrize("end", [KeyboardInterrupt, Interrupted])
@pytest.mark.fault("pods are gone before they are looked at", ends="their last known end", keeps="the timeline")
def test_how_the_pods_ended_outlives_whoever_deletes_them(world: World, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]) -> None:
    """The worker is killed, or told to end by Airflow, while it waits for the deletion: no second run is paid for what would end alike."""
    world.kube.script("*", Script().started().stuck().oom_killed())
    attempt = world.begin()
    world.pod_is("Failed")

    def killed(_: float) -> None:
        raise end

    with monkeypatch.context() as dying, pytest.raises(end):
        dying.setattr("time.sleep", killed)
        close_attempt(attempt)
    attempt.api().delete("Pod", names.pod_name(attempt.trial, 0), grace_s=0)
    assert world.record().failure_detail == UNFINISHED
    again, record = ClusterLauncher().adopt(world.spec)
    assert again.trial == attempt.trial
    assert record is not None and record.failure_class == "out_of_memory" and world.record() == record


def test_a_store_that_hid_how_it_ended_is_asked_again(world: World, tmp_path: Path) -> None:
    """The pods ended while their store was away: when it is back and holds nothing, what befell the pods is the class."""
    world.kube.script("*", Script().started().oom_killed())
    attempt = world.begin()
    world.pod_is("Failed")
    hidden = tmp_path / "away"
    hidden.rename(tmp_path / "elsewhere")
    hidden.write_text("no folder")
    assert close_attempt(attempt).failure_class == "unreachable"
    hidden.unlink()
    (tmp_path / "elsewhere").rename(hidden)
    _, record = ClusterLauncher().adopt(world.spec)
    assert record is not None and record.failure_class == "out_of_memory"


def test_two_installations_in_one_namespace_never_take_up_each_others_pods(world: World) -> None:
    mine = names.launch_name(world.trial)
    theirs = world.trial.model_copy(update={"planned_at": world.trial.planned_at + timedelta(microseconds=1)})
    assert names.launch_name(theirs) != mine
    assert names.launch_name(Trial.model_validate_json(world.trial.model_dump_json())) == mine, "the same from store to store"


def test_a_document_of_another_installation_says_nothing(world: World) -> None:
    world.kube.script("*", Script().started().oom_killed())
    attempt = world.begin()
    theirs = attempt.trial.model_copy(update={"planned_at": attempt.trial.planned_at + timedelta(days=1)})
    document = ResultDocument.sealed(
        trial=theirs, harness_version="0.1.0", environment=Environment.of({"cpu.model": "x"}), validity=Validity(status="valid")
    )
    world.away.put_document(document)
    world.pod_is("Failed")
    assert close_attempt(attempt).failure_class == "out_of_memory"


def test_a_bucket_that_does_not_exist_is_a_bad_declaration(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ResultStore._put

    missing = FileNotFoundError("The specified bucket does not exist")

    def no_bucket(store: ResultStore, path: str, data: bytes) -> None:
        if store.url == world.away.url:
            raise missing
        put(store, path, data)

    monkeypatch.setattr(ResultStore, "_put", no_bucket)
    with pytest.raises(BadDeclaration, match=str(missing)):
        ClusterLauncher().adopt(world.spec)


@pytest.mark.fault("our store is away when pods start", ends="measured", keeps="the trial")
def test_a_home_that_is_away_when_the_pods_start_costs_no_trial(world: World, tmp_path: Path) -> None:
    world.kube.script("*", Script().started().runs(harness(lasts_s=5.0)))
    attempt = world.begin()
    world.pod_is("Running")
    folder = tmp_path / "home" / "results"
    folder.rename(tmp_path / "gone")
    folder.write_text("no folder")
    attempt.started(LaunchObservation(expected=1))
    assert attempt.started_at is not None and attempt.seen.pods


PRINTED = ("measured", "the store did not take it")


def printing(run: PodRun) -> int:
    """The process of a pod whose store is away at the end: the document goes to the log, the exit status says that the store failed."""
    arguments = run.row["spec"]["containers"][0]["args"]
    url, store = arguments[arguments.index("--trial") + 1], ResultStore(arguments[arguments.index("--out") + 1])
    trial = store.trial(url.removeprefix(f"{store.url}/").removesuffix("/trial.json"))
    document = ResultDocument.sealed(
        trial=trial, harness_version="0.1.0", environment=Environment.of({"cpu.model": "fake"}), validity=Validity(status="valid")
    )
    run.say(PRINTED[0], *log_transport.encode_lines(signed(run, document).model_dump_json().encode(), ()), PRINTED[1])
    return 1


@pytest.mark.fault("the pods' bucket is away at the end and afterwards", ends="valid", keeps="the document, brought home by the log")
def test_a_result_whose_store_stayed_away_comes_home_by_the_log(world: World, tmp_path: Path) -> None:
    world.kube.script("*", Script().started().runs(printing))
    attempt = world.begin()
    world.pod_is("Failed")
    (tmp_path / "away").rename(tmp_path / "elsewhere")
    (tmp_path / "away").touch()
    record = close_attempt(attempt)
    assert (record.failure_class, record.exit_code) == (None, 1)
    assert record.log_tail == "\n".join(PRINTED)
    (document,) = collect(world.home, attempt.trial.campaign_id, attempt.trial.trial_id)
    assert document.validity.status == "valid" and document.launch == record
    assert world.kube.leftovers() == []


@pytest.mark.fault("a pod prints the result of another trial", ends="harness_error", keeps="the log")
def test_a_printed_result_of_another_trial_is_not_taken(world: World) -> None:
    other = a_trial(provider=world.provider, declare={"name": "another"})
    document = ResultDocument.sealed(
        trial=other, harness_version="0.1.0", environment=Environment.of({"cpu.model": "fake"}), validity=Validity(status="valid")
    )
    lines = list(log_transport.encode_lines(document.model_dump_json().encode(), ()))
    world.kube.script("*", Script().started().log(*lines).failed(3))
    attempt = world.begin()
    world.pod_is("Failed")
    assert close_attempt(attempt).failure_class == "harness_error"
    assert not world.home.exists(f"{world.home.folder(attempt.trial)}/result.json")


@pytest.mark.fault("the process that watches a trial with a Deployment is killed", ends="nothing is left", keeps="what its pods stored")
@pytest.mark.parametrize("by", ["kill", "sweep"])
def test_servers_go_with_their_guard(kube: FakeKubernetes, tmp_path: Path, by: str) -> None:
    scaling = {"by": "keda", "minimum": 2, "maximum": 4, "triggers": [{"type": "cron", "metadata": {}}]}
    kube.script("*", Script().started())
    world = World(kube, tmp_path, serving=serving(scaling=scaling))
    attempt = world.begin()
    made = {left.partition("/")[0] for left in kube.leftovers()}
    assert made == {"deployments", "jobs", "networkpolicies", "pods", "scaledobjects", "secrets", "services"}
    if by == "kill":
        ClusterLauncher().cancel(ClusterLauncher().ticket(attempt), patience_s=2.0, timeout_s=2.0)
    else:
        assert any("Job" in each for each in sweep_expired(attempt.launcher, now_s=attempt.requested_at.timestamp() + 10 * 86400))
    kube.wait_for(lambda: kube.leftovers() == [], "all of it is gone")


SCALE_OUT = {
    **EXTERNAL,
    "phases": [
        {"name": "steady", "arrivals": {"poisson": {"rate": "2/s"}}, "duration": "60s"},
        {"name": "scale_out", "rates": ["2/s", "8/s"], "hold": "60s", "down": "60s"},
    ],
}
NO_METRICS = [{"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics returned"}]
SCALES = [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "ok"}]


def not_scaled(run: PodRun) -> int:
    """A pod whose service was not back within its SLO."""
    arguments = run.row["spec"]["containers"][0]["args"]
    url, store = arguments[arguments.index("--trial") + 1], ResultStore(arguments[arguments.index("--out") + 1])
    document = ResultDocument.sealed(
        trial=store.trial(url.removeprefix(f"{store.url}/").removesuffix("/trial.json")),
        harness_version="0.1.0",
        environment=Environment.of({"cpu.model": "fake"}),
        validity=Validity(status="degraded", reasons=(Reason(code="no_scale_out", detail="not back within 60s"),)),
    )
    store.put_document(signed(run, document))
    return 0


@pytest.mark.fault(
    "the scaler of the servers has no metrics", ends="bad_declaration", keeps="the scaler's own condition; no verdict on the provider"
)
@pytest.mark.parametrize(
    ("by", "conditions", "expected"),
    [
        ("hpa", NO_METRICS, "bad_declaration"),
        ("hpa", SCALES, None),
        ("keda", [{"type": "Ready", "status": "False", "reason": "ScaledObjectCheckFailed", "message": "no trigger"}], "bad_declaration"),
        ("keda", [{"type": "Active", "status": "False", "reason": "ScalerNotActive", "message": "at rest"}], None),
    ],
)
def test_no_scale_out_by_a_scaler_that_cannot_work_is_not_the_providers(
    kube: FakeKubernetes, tmp_path: Path, by: str, conditions: list[dict[str, str]], expected: str | None
) -> None:
    measure = {"cpu": "70%"} if by == "hpa" else {"triggers": [{"type": "cron", "metadata": {}}], "minimum": 0}
    kube.script("*", Script().started().runs(not_scaled))
    world = World(kube, tmp_path, SCALE_OUT, serving=serving(scaling={"by": by, "maximum": 4, **measure}))
    attempt = world.begin()
    kube.wait_for(lambda: any(p["status"]["phase"] == "Succeeded" for p in kube.pods().values()), "the trial has ended")
    plural = "horizontalpodautoscalers" if by == "hpa" else "scaledobjects"
    row = kube.store.get(plural, NS, attempt.name)
    if by == "hpa":
        row["metadata"].setdefault("annotations", {})["autoscaling.alpha.kubernetes.io/conditions"] = json.dumps(conditions)
    kube.store.put(plural, {**row, "status": {"conditions": [] if by == "hpa" else conditions}})
    record = close_attempt(attempt)
    assert record.failure_class == expected
    (document,) = collect(world.home, attempt.trial.campaign_id, attempt.trial.trial_id)
    assert document.validity.failure_class == expected
    assert expected is None or conditions[0]["reason"] in document.validity.reasons[0].detail


def test_a_trial_with_its_server_beside_it_creates_no_deployment(kube: FakeKubernetes, tmp_path: Path) -> None:
    kube.script("*", Script().started())
    World(kube, tmp_path).begin()
    assert {left.partition("/")[0] for left in kube.leftovers()} == {"pods", "secrets"}
