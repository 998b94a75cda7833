"""The trigger against a Kubernetes API on loopback that fails as real ones do, driven as Airflow's triggerer drives it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk.execution_time import task_runner
from tests.fakes.fake_kubernetes import FakeKubernetes, PodRun, Script
from tests.fakes.trials import a_trial, cluster_provider

from plumbline.airflow.triggers import LaunchTrigger
from plumbline.harness.launcher_protocol import PROGRESS_EVENT
from plumbline.launch import progress, stores
from plumbline.launch.cluster.manifests.trial_pod import pod_manifest
from plumbline.launch.cluster.names import LAUNCH, RANK
from plumbline.launch.cluster.observe.observation import LaunchObservation, decode_observation
from plumbline.launch.cluster.observe.verdict import classify_launch
from plumbline.launch.cluster.operate.attempts import Attempt
from plumbline.launch.cluster.operate.launch_watch import LaunchWatch
from plumbline.launch.failures import is_retryable
from plumbline.results import LaunchRecord

SPACE = "plumbline"
LISTS = f"GET /api/v1/namespaces/{SPACE}/pods[?]*"


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeKubernetes]:
    with FakeKubernetes() as kube:
        monkeypatch.setenv("AIRFLOW_CONN_K8S_FAKE", kube.connection_json(SPACE))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
        yield kube


def create(kube: FakeKubernetes, *ranks: int, owner: dict[str, Any] | None = None) -> None:
    for rank in ranks:
        metadata: dict[str, Any] = {"name": f"pl-a-{rank}", "namespace": SPACE, "labels": {LAUNCH: "pl-a", RANK: str(rank)}}
        if owner is not None:
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service", "name": "pl-a", "uid": owner["metadata"]["uid"]}]
        kube.store.create("pods", SPACE, {"metadata": metadata, "spec": {"containers": [{"name": "harness", "image": "i:1"}]}})


def trigger(**changed: Any) -> LaunchTrigger:
    now = time.time()
    arguments: dict[str, Any] = {
        "connection": "k8s_fake",
        "namespace": SPACE,
        "selector": f"{LAUNCH}=pl-a",
        "launch": "pl-a",
        "trial_id": "t-1",
        "expected": 1,
        "owner": None,
        "requested_at": now,
        "schedule_timeout_s": 60,
        "startup_timeout_s": 60,
        "deadline": now + 120,
        "unreachable_timeout_s": 30,
        "poll_s": 0.05,
        "log_every_s": 0.05,
        "patience_s": 60,
        "grace_s": 60,
        "request_timeout_s": 5,
    }
    return LaunchTrigger(**{**arguments, **changed})


async def fired(watching: LaunchTrigger) -> tuple[str, LaunchObservation]:
    """What the trigger fires, through JSON and from a trigger made again from its row, as Airflow does both."""
    path, arguments = watching.serialize()
    assert path == "plumbline.airflow.triggers.LaunchTrigger"
    events = [event async for event in LaunchTrigger(**json.loads(json.dumps(arguments))).run()]
    assert len(events) == 1
    row = json.loads(json.dumps(events[0].payload))
    return row["status"], decode_observation(row)


def lists(kube: FakeKubernetes) -> int:
    return len(kube.called(LISTS))


async def stopped(watching: LaunchTrigger) -> tuple[str, str, int | None]:
    status, seen = await fired(watching)
    assert status == "stopped"
    assert seen.stop is not None
    return seen.stop.reason, seen.stop.detail, seen.stop.status


# How launches go.


async def test_a_launch_starts_and_ends(kube: FakeKubernetes) -> None:
    """In one trigger: each event costs an execution of the task."""
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    task = asyncio.create_task(fired(trigger(known=["pl-a-0"])))
    await until(lambda: kube.called(f"GET /api/v1/namespaces/{SPACE}/events*") and lists(kube) > 2)
    kube.become("pl-a-0", Script().failed(3))
    status, seen = await task
    assert (status, seen.stop, seen.gone) == ("finished", None, frozenset())
    assert seen.pods[0]["spec"]["nodeName"] == "node-1"
    assert {"Scheduled", "Pulled"} <= {event["reason"] for event in seen.events}
    assert seen.pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def announced(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch, script: Script) -> tuple[Attempt, LaunchTrigger]:
    """A trial's attempt whose pod was created, and its trigger."""
    monkeypatch.setenv("AIRFLOW_CONN_K8S_A", kube.connection_json(SPACE))
    trial = a_trial(provider=cluster_provider(results_url=(Path(os.environ["PLUMBLINE_HOME"]) / "away").as_uri()))
    stores.home().put(stores.planned_path(trial.campaign_id, trial.trial_id), trial.model_dump_json().encode())
    attempt = Attempt.next({"campaign_id": trial.campaign_id, "trial_id": trial.trial_id})
    kube.script("*", script)
    attempt.create_key_secret(attempt.api())
    attempt.api().create(pod_manifest(attempt.trial, requested_at=attempt.requested_at))
    return attempt, replace(LaunchTrigger.of(attempt), poll_s=0.05, earliest_s=0.0)


def newest(attempt: Attempt) -> Attempt:
    return Attempt.at(attempt.home, attempt.home.folder(attempt.trial))


@pytest.mark.fault("the triggerer dies after a pod's start, and the pod is lost", ends="interrupted", keeps="the pod's events and node")
async def test_the_start_is_stored_and_the_next_triggerer_knows_it(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, watching = announced(kube, monkeypatch, Script().started())
    task = asyncio.create_task(fired(watching))
    await until(lambda: newest(attempt).started_at is not None)
    seen = newest(attempt).seen
    assert set(seen.nodes) == {"node-1"} and {"Scheduled", "Pulled"} <= {event["reason"] for event in seen.events}
    task.cancel()  # as a triggerer ends that is killed: its trigger's row stays as it was
    kube.become("*", Script().vanishes())
    kube.wait_for(lambda: not kube.pods(SPACE), "the pod is gone")
    # By its controller's pods only: those of a gang have no known names before they start.
    status, now = await fired(replace(watching, known=()))
    assert (status, now.gone) == ("finished", frozenset(attempt.pod_names)), "no wait for a pod that was there"


@pytest.mark.fault("the store is away when a pod starts", ends="measured", keeps="the launch; the log says so once")
async def test_a_store_that_is_away_at_the_start_ends_nothing(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    _, watching = announced(kube, monkeypatch, Script().started().after(0.5).succeeded())

    def away(*_: object) -> None:
        raise ConnectionError("the store is away")

    monkeypatch.setattr(stores, "newest_attempt", away)
    with structlog.testing.capture_logs() as lines:
        assert (await fired(watching))[0] == "finished"
    assert [line["event"] for line in lines if "could not be read or stored" in line["event"]]


async def test_looks_are_served_from_the_api_servers_memory_unless_a_pod_is_missing(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started().after(0.3).succeeded())
    create(kube, 0)
    await fired(trigger())
    assert {call.query.get("resourceVersion") for call in kube.called(LISTS)} == {"0"}
    kube.script("pl-a-*", Script().started())
    status, seen = await fired(trigger(known=["pl-a-0", "pl-a-1"], expected=2))
    assert (status, seen.gone) == ("finished", {"pl-a-1"})
    assert None in {call.query.get("resourceVersion") for call in kube.called(LISTS)}


@pytest.mark.parametrize(
    ("script", "limits", "reason", "says"),
    [
        (Script().unschedulable(), {"schedule_timeout_s": 0.5}, "schedule_timeout", "Insufficient nvidia.com/gpu"),
        (Script().scheduled().image_pull_fails(), {"patience_s": 0.3}, "image_error", "ImagePullBackOff: Back-off pulling"),
        (
            Script().scheduled().waiting("CreateContainerConfigError", 'secret "results" not found'),
            {"patience_s": 0.3},
            "config_error",
            'secret "results" not found',
        ),
        (Script().started(), {"started": True, "deadline": 0.5}, "deadline", "runs on node-1"),
    ],
)
async def test_a_launch_that_goes_nowhere_is_stopped(
    kube: FakeKubernetes, script: Script, limits: dict[str, Any], reason: str, says: str
) -> None:
    gone_as_far = threading.Event()
    kube.script("pl-a-*", script.then(lambda _: gone_as_far.set()))
    create(kube, 0)
    kube.wait_for(gone_as_far.is_set, "the script has come to its end")
    found, detail, status = await stopped(trigger(**limits))
    assert (found, status) == (reason, None)
    assert says in detail


# What the API does.


async def survives(kube: FakeKubernetes, watching: LaunchTrigger, looks: int = 2) -> None:
    """After trouble the launch's end is still found out."""
    task = asyncio.create_task(fired(watching))
    before = lists(kube)
    await until(lambda: sum(1 for call in kube.called(LISTS)[before:] if call.code == 200) >= looks)
    kube.become("pl-a-0", Script().succeeded())
    assert (await task)[0] == "finished"


@pytest.mark.full
@pytest.mark.parametrize("code", [410, 500, 503])
async def test_answers_that_mean_not_now_are_asked_for_again(kube: FakeKubernetes, code: int) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.answer_next(code, times=2, match=LISTS)
    await survives(kube, trigger(started=True))


async def test_the_api_says_when_to_come_back(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.answer_next(429, match=LISTS, retry_after=1)
    began = time.monotonic()
    await survives(kube, trigger(started=True), looks=1)
    assert time.monotonic() - began >= 1
    assert [call.code for call in kube.called(LISTS)][:2] == [429, 200]


@pytest.mark.full
async def test_a_cut_connection_and_a_slow_api_are_outlived(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.answer_next(cut=True, match=LISTS)
    kube.slow(3, match=LISTS)
    task = asyncio.create_task(survives(kube, trigger(started=True, request_timeout_s=0.4)))
    await until(lambda: lists(kube) > 2)  # the one that was cut, and slow ones that were given up
    kube.heal()
    await task


async def test_a_restart_of_the_api_server_is_two_lines_in_the_log(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    task = asyncio.create_task(fired(trigger(started=True)))
    await until(lambda: lists(kube) > 1)
    with structlog.testing.capture_logs() as logged:

        def levels() -> list[str]:
            # Not every line that names the namespace: a log that was being read when the server went is a warning of its own.
            return [line["log_level"] for line in logged if f"The API of namespace {SPACE}" in line["event"]]

        kube.down()
        await until(lambda: levels() == ["warning"])
        kube.up()
        await until(lambda: len(levels()) > 1)
        kube.become("pl-a-0", Script().succeeded())
        assert (await task)[0] == "finished"
    assert levels() == ["warning", "info"]


async def test_an_api_that_is_down_for_ever_is_unreachable(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.down()
    reason, detail, status = await stopped(trigger(unreachable_timeout_s=0.5))
    assert (reason, status) == ("unreachable", None)
    assert "unreachable_timeout" in detail and "GET /api/v1" in detail


async def test_a_rotated_token_is_read_again_without_a_word(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    task = asyncio.create_task(fired(trigger(started=True)))
    await until(lambda: lists(kube) > 1)
    kube.token = "rotated"
    monkeypatch.setenv("AIRFLOW_CONN_K8S_FAKE", kube.connection_json(SPACE))
    with structlog.testing.capture_logs() as told:
        kube.become("pl-a-0", Script().after(0.5).succeeded())
        assert (await task)[0] == "finished"
    assert not [line for line in told if line["log_level"] in ("warning", "error")]


@pytest.mark.parametrize("code", [pytest.param(401, marks=pytest.mark.full), 403])
async def test_a_refusal_that_lasts_is_unreachable_with_its_status(kube: FakeKubernetes, code: int) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.answer_next(code, times=10_000)
    reason, detail, status = await stopped(trigger(unreachable_timeout_s=0.5))
    assert (reason, status) == ("unreachable", code)
    assert f"HTTP {code}" in detail


@pytest.mark.fault("the triggerer lacks a connection that the worker has", ends="bad_declaration after one poll", keeps="one pod's time")
async def test_a_connection_that_the_triggerer_lacks_ends_the_launch_at_its_first_poll(kube: FakeKubernetes) -> None:
    began = time.monotonic()
    polls = [p async for p in LaunchWatch(trigger(connection="k8s_worker_only", unreachable_timeout_s=900), structlog.get_logger()).polls()]
    seen = decode_observation(dict(polls[-1].seen))
    assert len(polls) == 1 and time.monotonic() - began < 900, "no wait for what no wait defines"
    failure, detail = classify_launch(seen, None)
    assert failure == "bad_declaration" and not is_retryable(LaunchRecord(launcher="kubernetes", events=(), failure_class=failure), None)
    assert "triggerer" in str(detail) and "k8s_worker_only" in str(detail) and "plumbline doctor" in str(detail)


async def test_a_connection_that_was_there_and_is_gone_is_waited_for(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    task = asyncio.create_task(fired(trigger()))
    await until(lambda: lists(kube) > 1)
    monkeypatch.delenv("AIRFLOW_CONN_K8S_FAKE")
    before = lists(kube)
    await asyncio.sleep(0.3)
    monkeypatch.setenv("AIRFLOW_CONN_K8S_FAKE", kube.connection_json(SPACE))
    kube.become("pl-a-0", Script().succeeded())
    assert (await task)[0] == "finished" and lists(kube) > before
    reason, _, _ = await stopped(trigger(connection="nowhere", started=True, unreachable_timeout_s=0.5))
    assert reason == "unreachable", "another triggerer has read this launch: the connection may come back"


@pytest.mark.fault("a secrets backend is away as a triggerer first reads a connection", ends="asked again", keeps="the launch")
async def test_a_secrets_backend_that_does_not_answer_lacks_nothing(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def get_connection(self, conn_id: str, **_: Any) -> None:
            raise RuntimeError("token s.planted-secret: connection refused")

    monkeypatch.setattr("airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: [Away()])
    reason, detail, _ = await stopped(trigger(connection="k8s_in_vault", unreachable_timeout_s=0.5))
    assert reason == "unreachable" and "Away" in detail and "planted-secret" not in detail


async def test_a_connection_that_is_wrong_is_named_without_its_content(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"conn_type": "kubernetes", "extra": {"kube_config": "users: [{token: planted-secret"}}
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", json.dumps(broken))
    _, detail, _ = await stopped(trigger(connection="broken", unreachable_timeout_s=0.5))
    assert "planted-secret" not in detail


async def test_an_answer_that_is_no_list_is_asked_for_again(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = {
        "kube_config": json.dumps({**kube.kubeconfig(SPACE), "clusters": [{"name": "fake", "cluster": {"server": kube.url + "/livez?"}}]})
    }
    monkeypatch.setenv("AIRFLOW_CONN_PORTAL", json.dumps({"conn_type": "kubernetes", "extra": elsewhere}))
    reason, detail, _ = await stopped(trigger(connection="portal", unreachable_timeout_s=0.5))
    assert reason == "unreachable"
    assert "'ok'" in detail, "the beginning of the answer"


async def test_a_fault_of_the_watch_itself_is_no_way_past_the_operator(kube: FakeKubernetes) -> None:
    def at_no_time(run: PodRun) -> None:
        run.row["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "soon"}]

    kube.script("pl-a-*", Script().scheduled().then(at_no_time))
    create(kube, 0)
    reason, detail, _ = await stopped(trigger(unreachable_timeout_s=0.5))
    assert reason == "unreachable"
    assert "ValueError" in detail


# What people read.


async def test_the_log_and_the_progress_of_rank_0_are_told(kube: FakeKubernetes) -> None:
    note = "120 of 300 steps"
    step = json.dumps({"event": PROGRESS_EVENT, "trial_id": "../../elsewhere", "phase": "steady", "fraction": 0.4, "note": note})
    kube.script("pl-a-*", Script().started().log("hello", step, step).after(0.5).log("last words").failed(1))
    create(kube, 0)
    with structlog.testing.capture_logs() as told:
        await fired(trigger(started=True))
    first, progressed, last = (line["event"] for line in told if line["event"] in ("hello", "last words") or note in line["event"])
    assert (first, last) == ("hello", "last words")
    assert "steady" in progressed and "40 %" in progressed
    newest = progress.read_progress("t-1")
    assert newest is not None
    assert (newest.trial_id, newest.fraction) == ("t-1", 0.4), "a pod's output chooses no file here"


async def test_the_progress_says_what_a_launch_waits_for_and_that_the_wait_is_over(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().scheduled().waiting("ImagePullBackOff", "Back-off pulling image"))
    create(kube, 0)
    kube.wait_for(lambda: kube.pods()["pl-a-0"]["status"].get("containerStatuses"), "the script has begun")
    await stopped(trigger(patience_s=0.3))
    waited = progress.read_progress("t-1")
    assert waited is not None
    assert (waited.phase, waited.fraction) == ("queued", 0.0)
    assert "pod 0" in waited.note
    assert "ImagePullBackOff" in waited.note or "pulling" in waited.note.lower()
    kube.become("pl-a-0", Script().started().after(0.5).succeeded())
    await fired(trigger())
    running = progress.read_progress("t-1")
    assert running is not None
    assert (running.phase, running.fraction) == ("started", 0.0)
    assert "node-1" in running.note
    await fired(trigger(started=True, known=["pl-a-0"], deadline=0.3))
    after = progress.read_progress("t-1")
    assert after is not None
    assert after.phase == "started", "what a running pod's watch has to say is in its log"


@pytest.mark.parametrize("forbidden", [("get", "pods/log"), ("list", "events")])
async def test_a_log_or_events_that_cannot_be_read_end_nothing_and_are_told_once(kube: FakeKubernetes, forbidden: tuple[str, str]) -> None:
    kube.forbidden.add(forbidden)
    kube.script("pl-a-*", Script().started().log("hello"))
    create(kube, 0)
    kube.wait_for(lambda: kube.pods()["pl-a-0"]["status"].get("containerStatuses"), "the script has begun")
    with structlog.testing.capture_logs() as told:
        watching = asyncio.create_task(fired(trigger(started=True)))
        while not watching.done() and len(kube.called(f"GET */{forbidden[1].rpartition('/')[2]}*")) < 3:
            await asyncio.sleep(0.02)
        kube.become("pl-a-0", Script().succeeded())
        assert (await watching)[0] == "finished"
    assert len([line for line in told if line["log_level"] == "warning"]) == 1
    assert ("hello" in [line["event"] for line in told]) == (forbidden == ("list", "events"))


@pytest.mark.parametrize("fraction", ["NaN", "1e999", "-1", "1" + 400 * "0"])
async def test_whatever_a_pod_prints_ends_no_trial(kube: FakeKubernetes, fraction: str) -> None:
    line = f'{{"event": "{PROGRESS_EVENT}", "trial_id": "t-1", "phase": "steady", "fraction": {fraction}, "note": ""}}'
    kube.script("pl-a-*", Script().started().log(line).after(0.3).succeeded())
    create(kube, 0)
    assert (await fired(trigger(started=True)))[0] == "finished"


async def test_no_secret_is_in_the_row_or_in_what_it_fires(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started().after(0.3).succeeded())
    create(kube, 0)
    watching = trigger()
    events = [event async for event in watching.run()]
    assert kube.token not in json.dumps([watching.serialize(), events[0].payload])
    assert kube.token not in repr(watching)


# How it is killed, by the part of Airflow that does it.


@dataclass
class Task:
    """What Airflow tells a trigger of its task."""

    id: str = "1"
    dag_id: str = "benchmark"
    task_id: str = "training.run"
    run_id: str = "r"
    try_number: int = 1
    map_index: int = 2
    context_carrier: dict[str, str] | None = None


class Supervisor:
    """Answers what a trigger asks of Airflow: the task's state, or nothing at all."""

    def __init__(self, state: str | None) -> None:
        self.state = state
        self.asked = 0

    def send(self, _: Any) -> Any:
        self.asked += 1
        if self.state == "away":
            raise RuntimeError("the API server is away")
        return task_runner.TaskStatesResult(task_states={"r": {"training.run_2": self.state}})


@asynccontextmanager
async def triggerer(watching: LaunchTrigger, state: str | None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TriggerRunner]:
    """Airflow's own runner with this trigger on it; after the body the trigger has ended."""
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(state), raising=False)
    monkeypatch.setenv("AIRFLOW_DISABLE_GREENBACK_PORTAL", "true")  # this trigger needs none, and it disturbs pytest's own tracebacks
    watching.__dict__["_task_instance"] = Task()
    runner = TriggerRunner()
    task = asyncio.create_task(runner.run_trigger(1, watching, None))
    runner.triggers[1] = {"task": task, "is_watcher": False, "name": "pl-a", "events": 0}
    yield runner
    with pytest.raises(asyncio.CancelledError):
        await task


async def until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.025)


@pytest.mark.parametrize("state", ["failed", "success", None, "scheduled", "away"])
async def test_when_somebody_ends_the_task_its_pods_are_deleted(
    kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    async with triggerer(trigger(started=True), state, monkeypatch) as runner:
        await until(lambda: lists(kube) > 1)
        # Again in each round, as Airflow does.
        while not runner.triggers[1]["task"].done():
            runner.to_cancel.append(1)
            await runner.cancel_triggers()
            await asyncio.sleep(0.1)
    await until(lambda: kube.leftovers(SPACE) == [])


async def test_the_slow_first_answer_is_over_before_a_kill_needs_one(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    async with triggerer(trigger(started=True), "deferred", monkeypatch) as runner:
        await until(lambda: task_runner.SUPERVISOR_COMMS.asked)
        runner.triggers[1]["task"].cancel()


async def test_a_kill_goes_on_though_airflow_cancels_it_again_every_second(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    async with triggerer(trigger(started=True), "failed", monkeypatch) as runner:
        await until(lambda: lists(kube) > 1)
        kube.slow(0.3)
        for _ in range(3):
            runner.to_cancel.append(1)
            await runner.cancel_triggers()
            await asyncio.sleep(0.05)
    await until(lambda: kube.leftovers(SPACE) == [])


@pytest.mark.full
async def test_a_gang_is_deleted_by_its_owner_through_an_outage(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    service = kube.store.create("services", SPACE, {"metadata": {"name": "pl-a", "namespace": SPACE}, "spec": {"clusterIP": "None"}})
    kube.script("pl-a-*", Script().started())
    create(kube, 0, 1, owner=service)
    owner = {"apiVersion": "v1", "kind": "Service", "name": "pl-a"}
    async with triggerer(trigger(started=True, expected=2, owner=owner), "failed", monkeypatch) as runner:
        await until(lambda: lists(kube) > 1)
        kube.answer_next(503, times=2, match="DELETE *")
        runner.to_cancel.append(1)
        await runner.cancel_triggers()
    (first, *_) = (call for call in kube.called("DELETE */services/pl-a") if call.code == 200)
    assert first.body["propagationPolicy"] == "Foreground"
    await until(lambda: kube.leftovers(SPACE) == [])


async def test_a_kill_that_the_cluster_does_not_answer_is_given_up_in_time(kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.airflow.triggers._DELETE_LIMIT_S", 1.0)
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    kube.down()
    with structlog.testing.capture_logs() as told:
        await trigger(started=True).on_kill()
    assert told[-1]["log_level"] == "error"
    assert "pl-a" in told[-1]["event"]


async def test_a_triggerer_that_shuts_down_or_lost_the_task_to_another_deletes_nothing(
    kube: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    async with triggerer(trigger(started=True), "deferred", monkeypatch) as runner:
        await until(lambda: lists(kube) > 1)
        runner.triggers[1]["task"].cancel("EOF - shutting down")
    async with triggerer(trigger(started=True), "deferred", monkeypatch) as runner:
        before = lists(kube)
        await until(lambda: lists(kube) > before)
        runner.to_cancel.append(1)  # as it does when the trigger's row names another triggerer
        await runner.cancel_triggers()
    assert kube.leftovers(SPACE) == ["pods/pl-a-0"]
    assert not kube.called("DELETE *")


async def test_no_cancellation_is_lost_to_a_request_that_ends_in_the_same_moment(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    for after in range(20):
        task = asyncio.create_task(fired(trigger(started=True, poll_s=0.0)))
        seen = lists(kube)
        await until(lambda: lists(kube) > seen)  # noqa: B023 - called at once
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        assert (await asyncio.wait([task], timeout=60))[0] == {task}, f"cancelled {after} steps of the loop after an answer"


@pytest.mark.full
async def test_many_watches_share_one_loop(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().started())
    create(kube, 0)
    await stopped(trigger(deadline=0.0))  # loads the client, once
    watches = [asyncio.create_task(fired(trigger(started=True, poll_s=0.2))) for _ in range(20)]
    await until(lambda: lists(kube) > 60)
    kube.become("pl-a-0", Script().succeeded())
    assert {(await each)[0] for each in watches} == {"finished"}


async def test_what_is_over_at_once_is_told_only_when_the_scheduler_knows_that_the_task_waits(kube: FakeKubernetes) -> None:
    kube.script("pl-a-*", Script().succeeded())
    create(kube, 0)
    began = time.monotonic()
    status, _ = await fired(trigger(known=["pl-a-0"], started=True, earliest_s=0.5))
    assert status == "finished"
    assert time.monotonic() - began >= 0.5
