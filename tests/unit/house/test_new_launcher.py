"""A launcher whose trials outlast a task is one file: it plans, launches, is killed, settles and sweeps, in a task and by Airflow's operator."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from tests.data.result_documents import provider
from tests.documented import page
from tests.fakes.installation import install_package
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, declared

from plumbline.airflow.operators import LaunchOperator, remote_operator
from plumbline.airflow.triggers import RemoteTrigger
from plumbline.declarations import Declarations, Provider, Trial
from plumbline.launch import stores
from plumbline.launch.failures import BadDeclaration, Interrupted
from plumbline.launch.leftovers import stored_leftovers
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.registry import launcher_for
from plumbline.launch.remote import UNFINISHED, Poll, RemoteLauncher
from plumbline.results import LaunchRecord
from plumbline.workflows import collect, run, sweep

ROOT = Path(__file__).resolve().parents[3]
TOY = """
import json, os, shlex, signal, subprocess, time
from pathlib import Path
from typing import Literal

from plumbline.declarations.providers.launcher_base import LauncherBase
from plumbline.launch import stores
from plumbline.launch.failures import ApiRefused, ProcessEnd, trial_outcome
from plumbline.launch.leftovers import Leftovers
from plumbline.launch.remote import UNFINISHED, Poll, RemoteAttempt, RemoteLauncher
from plumbline.results import LaunchRecord


class Batch(LauncherBase):
    kind: Literal["batch"]
    spool: str
    job: tuple[str, ...]
    timeout: float = 600.0
    implementation = "batch:BatchLauncher"
    outlasts_task = True


class Job(RemoteAttempt):
    def __init__(self, trial, home):
        self.trial, self.home = trial, home

    @property
    def name(self):
        return f"{self.trial.trial_id}.a{self.trial.attempt}"

    @property
    def file(self):
        return Path(self.trial.provider.launcher.spool, self.name)

    def lives(self):
        return runs(self.file)

    def record(self, failure, detail):
        record = LaunchRecord(launcher="batch", events=(), exit_code=code_of(self.file), failure_class=failure, failure_detail=detail)
        self.home.put_launch(self.trial, record)
        return record


class BatchLauncher(RemoteLauncher):
    place = "the queue"

    def announce(self, spec):
        home = stores.home()
        job = Job(stores.next_attempt(stores.planned_trial(home, spec), home), home)
        home.put_trial(job.trial)
        job.record("interrupted", UNFINISHED)
        return job

    def attempt_at(self, home, folder):
        return Job(home.trial(folder), home)

    def submit(self, job):
        if job.file.exists():
            return
        if not job.file.parent.is_dir():
            raise ApiRefused(0, f"no queue at {job.file.parent}")
        work = shlex.join([*job.trial.provider.launcher.job, job.home.url, job.folder])
        process = subprocess.Popen(["sh", "-c", f"{work}; echo $? >{shlex.quote(f'{job.file}.code')}"], start_new_session=True)
        ends = time.time() + job.trial.provider.launcher.timeout
        job.file.write_text(json.dumps({"pid": process.pid, "ends": ends, "campaign": job.trial.campaign_id}))

    def ticket(self, job):
        return {"launch": job.name, "trial_id": job.trial.trial_id, "file": str(job.file)}

    async def poll(self, ticket, log):
        while runs(Path(ticket["file"])):
            yield Poll(pause_s=0.05)
        yield Poll("finished", {"code": code_of(Path(ticket["file"]))})

    def collect(self, job, seen=None, stop=None):
        end(job.file)
        if (code := code_of(job.file)) is None:
            reason = stop.reason if stop and stop.reason != "killed" else "interrupted"
            failure = {"refused": "bad_declaration"}.get(reason, reason)
            return job.record(failure, stop.detail if stop else "its job was ended")
        return job.record(*trial_outcome(ProcessEnd(code, None, ""), job.home, job.folder, ""))

    def cancel(self, ticket, *, patience_s, timeout_s):
        end(Path(ticket["file"]))

    def sweep(self, provider, campaign_id=None):
        due = [f for f, row in jobs(provider) if (row["ends"] < time.time() if campaign_id is None else row["campaign"] == campaign_id)]
        return [f"job {file.name}" for file in due if end(file)]

    def leftovers(self, provider):
        rows = [row for file, row in jobs(provider) if runs(file)]
        of = {row["campaign"]: sum(other["campaign"] == row["campaign"] for other in rows) for row in rows}
        return Leftovers(of, sum(row["ends"] < time.time() for row in rows), "2026-11-01T02:00:00+00:00", "job")


def jobs(provider):
    files = sorted(file for file in Path(provider.launcher.spool).iterdir() if file.suffix != ".code")
    return [(file, json.loads(file.read_text())) for file in files]


def runs(file):
    try:
        return Path("/proc", str(json.loads(file.read_text())["pid"]), "stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def code_of(file):
    code = Path(f"{file}.code")
    return int(code.read_text()) if code.exists() else None


def end(file):
    if alive := runs(file):
        os.killpg(json.loads(file.read_text())["pid"], signal.SIGKILL)
        while runs(file):
            time.sleep(0.01)
    return alive
"""

METADATA = {
    "batch-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: batch\nVersion: 1\n",
    "batch-1.dist-info/entry_points.txt": "[plumbline.launchers]\nbatch = batch:Batch\n",
    "batch.py": TOY,
}
MEASURED = """
import sys, time
from plumbline.results import Environment, ResultDocument, ResultStore, Validity

lasts_s, url, folder = sys.argv[1:]
store = ResultStore(url)
time.sleep(float(lasts_s))
store.put_document(
    ResultDocument.sealed(
        trial=store.trial(folder), harness_version="0.1.0", environment=Environment.of({"cpu.model": "fake"}), validity=Validity(status="valid")
    )
)
"""
CONTEXT = {"ti": SimpleNamespace(run_id="manual__1", max_tries=1, task=SimpleNamespace(retries=1))}
"""What Airflow hands to an operator, as far as ours reads it."""


@dataclass
class Queue:
    """A provider whose trials are jobs, and one planned trial there."""

    folder: Path
    provider: Provider
    trial: Trial

    @property
    def spec(self) -> dict[str, str]:
        return {"campaign_id": self.trial.campaign_id, "trial_id": self.trial.trial_id, "title": "a trial"}

    @property
    def launcher(self) -> RemoteLauncher[Any]:
        launcher = launcher_for(self.provider)
        assert isinstance(launcher, RemoteLauncher)
        return launcher

    @property
    def records(self) -> list[LaunchRecord]:
        store = stores.home()
        found = [store.launch(folder) for folder in store.attempts(self.trial.campaign_id, self.trial.trial_id)]
        return [record for record in found if record is not None]

    def task(self) -> subprocess.Popen[bytes]:
        """The trial's task in a process of its own, as Airflow starts it."""
        code = (
            f"from plumbline.workflows.run import run_trial, stopped_by_sigterm\nwith stopped_by_sigterm():\n    run_trial({self.spec!r})"
        )
        env = {**os.environ, "PYTHONPATH": search_path(self.folder / "site", ROOT)}
        return subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return make_queue(tmp_path, monkeypatch, lasts_s=0.2)


@pytest.fixture
def long_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return make_queue(tmp_path, monkeypatch, lasts_s=600.0)


def make_queue(folder: Path, monkeypatch: pytest.MonkeyPatch, *, lasts_s: float) -> Queue:
    install_package(folder, monkeypatch, METADATA)
    monkeypatch.setenv("PLUMBLINE_HOME", str(folder / "home"))
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    monkeypatch.setenv("PYTHONPATH", search_path(folder / "site", ROOT))
    (folder / "spool").mkdir()
    (folder / "measured.py").write_text(MEASURED)
    job = [sys.executable, str(folder / "measured.py"), str(lasts_s)]
    at = provider("batch-1", launcher={"kind": "batch", "spool": str(folder / "spool"), "job": job})
    trial = a_trial(provider=at)
    stores.home().put(stores.planned_path(trial.campaign_id, trial.trial_id), trial.model_dump_json().encode())
    return Queue(folder, at, trial)


def until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def test_its_trials_are_planned(queue: Queue) -> None:
    known = declared()
    here = Declarations({queue.provider.name: queue.provider}, known.workloads, known.teams, known.thresholds)
    trials = plan(here, queue.provider, RunRequest("2026-11", "a test"), queue.trial.planned_at)
    assert trials and {trial.provider.launcher.kind for trial in trials} == {"batch"}
    assert Trial.model_validate_json(trials[0].model_dump_json()) == trials[0]


def test_a_task_launches_and_collects_it(queue: Queue) -> None:
    assert run.run_trial(queue.spec) == {"trial_id": queue.trial.trial_id, "exit_code": 0}
    (record,) = queue.records
    assert (record.launcher, record.failure_class) == ("batch", None)
    assert collect.collect_trial(queue.spec)["status"] == "valid"
    assert run.run_trial(queue.spec)["exit_code"] == 0 and len(queue.records) == 2, "another run of the task measures again"


def test_a_refusal_is_recorded(queue: Queue) -> None:
    (queue.folder / "spool").rmdir()
    with pytest.raises(BadDeclaration, match="no queue at"):
        run.run_trial(queue.spec)
    assert [record.failure_class for record in queue.records] == ["bad_declaration"]


def test_a_job_outlives_its_killed_task_is_adopted_and_settled(long_queue: Queue) -> None:
    task = long_queue.task()
    until(lambda: long_queue.launcher.leftovers(long_queue.provider).running)
    task.kill()
    task.wait()
    left = long_queue.launcher.leftovers(long_queue.provider)
    assert left.running == {long_queue.trial.campaign_id: 1} and str(left).startswith("1 job ")
    assert [record.failure_detail for record in long_queue.records] == [UNFINISHED]
    attempt, record = long_queue.launcher.adopt(long_queue.spec)
    assert record is None and attempt.trial.attempt == 1 and attempt.lives()
    assert collect.collect_trial(long_queue.spec, settle=True)["failure_class"] == "interrupted" and not attempt.lives()
    assert long_queue.records[0].failure_detail != UNFINISHED
    assert long_queue.launcher.settle(long_queue.spec) == []


def test_a_task_that_is_stopped_cancels_its_job(long_queue: Queue) -> None:
    task = long_queue.task()
    until(lambda: long_queue.launcher.leftovers(long_queue.provider).running)
    task.send_signal(signal.SIGTERM)
    assert task.wait(60) != 0
    assert not long_queue.launcher.leftovers(long_queue.provider).running


def test_upkeep_sweeps_and_counts(long_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Declarations({long_queue.provider.name: long_queue.provider}, {}, {}, declared().thresholds)
    monkeypatch.setattr(sweep, "load_in_force", lambda: here)
    assert sweep.cluster_providers() == [long_queue.provider.name]
    attempt, _ = long_queue.launcher.adopt(long_queue.spec)
    long_queue.launcher.submit(attempt)
    assert sweep.sweep_cluster(long_queue.provider.name) == []
    kept = stored_leftovers(long_queue.provider.name)
    assert kept is not None and kept.row()["jobs"] == {long_queue.trial.campaign_id: 1}
    row = json.loads(attempt.file.read_text())
    attempt.file.write_text(json.dumps({**row, "ends": 0}))
    assert sweep.sweep_cluster(long_queue.provider.name) == [f"job {attempt.name}"]
    assert not attempt.lives()


def operator(queue: Queue) -> LaunchOperator:
    made: LaunchOperator = remote_operator(gang=False)(task_id="run", provider=queue.provider, spec=queue.spec)
    return made


def deferred(queue: Queue) -> RemoteTrigger:
    """The trigger of the trial's task, made again from its row."""
    with pytest.raises(TaskDeferred) as waiting:
        operator(queue).execute(CONTEXT)
    path, row = waiting.value.trigger.serialize()
    assert path == "plumbline.airflow.triggers.RemoteTrigger"
    return RemoteTrigger(**{**json.loads(json.dumps(row)), "earliest_s": 0.0})


async def test_airflow_waits_for_it_in_the_triggerer(queue: Queue) -> None:
    trigger = deferred(queue)
    (event,) = [event async for event in trigger.run()]
    assert event.payload == {"status": "finished", "code": 0}
    assert operator(queue).trigger_reentry(CONTEXT, event.payload)["exit_code"] == 0
    assert [record.failure_class for record in queue.records] == [None]


async def test_polls_that_tell_no_end_are_refused(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> AsyncIterator[Poll]:
        yield Poll()

    trigger = deferred(queue)
    monkeypatch.setattr(type(queue.launcher), "poll", silent)
    with pytest.raises(RuntimeError, match="without an end"):
        await anext(trigger.run())


async def test_airflow_cancels_it(long_queue: Queue) -> None:
    trigger = deferred(long_queue)
    waiting = asyncio.create_task(anext(trigger.run()))
    await asyncio.sleep(0.2)
    waiting.cancel()
    await trigger.on_kill()
    assert not long_queue.launcher.leftovers(long_queue.provider).running
    with pytest.raises(Interrupted, match="its job was ended"):
        operator(long_queue).trigger_reentry(CONTEXT, {"status": "finished"})


def test_the_page_shows_what_it_defines() -> None:
    text = page("extend")
    for name in RemoteLauncher.__abstractmethods__:
        assert f"`{name}`" in text, name
        assert f"def {name}(" in TOY, name
