"""Trials as jobs of a real Slurm and as guarded commands of a real sshd's machine: measured, refused, killed, adopted, swept, and gone."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.data.result_documents import provider
from tests.fakes.logins import NoSlurm, SlurmCluster, Sshd, needs_slurm, needs_sshd, slurm, sshd
from tests.fakes.quick_python import search_path
from tests.fakes.trials import a_trial, declared

from plumbline.declarations import Trial
from plumbline.launch import stores
from plumbline.launch.batch.launcher import BatchJobs
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.launch.failures import BadDeclaration, TrialFailure
from plumbline.launch.registry import launcher_for
from plumbline.launch.remote import UNFINISHED
from plumbline.results import LaunchRecord
from plumbline.results.launch_record import launch_metrics
from plumbline.workflows import collect, run

ROOT = Path(__file__).resolve().parents[2]
# What a machine's Python does here in place of the harness: it writes the trial's document, signed, after a while.
PYTHON = """#!/bin/sh
case "$*" in
  *"plumbline.harness run"*) exec {python} {measured} "$@" ;;
  *) exec {python} "$@" ;;
esac
"""
MEASURED = """
import os, sys, time
from pathlib import Path
from plumbline.declarations import Trial
from plumbline.declarations.workloads.training import Parallelism
from plumbline.results import Environment, ResultDocument, ResultStore, Validity, signing

assert "/harness/" in sys.modules["plumbline"].__path__[0], "the copy that was sent, not this checkout"
key = signing.take_key(os.environ)
trial = Trial.model_validate_json(Path(sys.argv[sys.argv.index("--trial") + 1]).read_text())
out = sys.argv[sys.argv.index("--out") + 1]
print("measuring", flush=True)
time.sleep(float(os.environ.get("LASTS_S", "0.3")))
if os.environ.get("CODE"):
    raise SystemExit(int(os.environ["CODE"]))
if os.environ.get("PLUMBLINE_NODE_RANK", "0") == "0":
    assert trial.workload.nodes == 1 or os.environ["PLUMBLINE_RENDEZVOUS"].startswith("127.0.0.1:")
    document = ResultDocument.sealed(
        trial=trial, harness_version="0.1.0", environment=Environment.of({"cpu.model": "fake"}), validity=Validity(status="valid")
    )
    ResultStore(out).put_document(signing.sign(document, key))
"""


@dataclass
class Batch:
    """A provider of one of the kinds, its server, and a planned trial."""

    folder: Path
    kind: str
    login: Sshd
    cluster: SlurmCluster | None

    def trial(self, *, lasts_s: float = 0.3, code: str = "", nodes: int = 1, **changed: Any) -> Trial:
        env = {"LASTS_S": str(lasts_s), **({"CODE": code} if code else {})}
        common = {"folder": str(self.folder / "remote"), "python": str(self.folder / "python"), "poll": "1s", "env": env, "timeout": "5min"}
        own = {"connection": "login", "exclusive": False} if self.kind == "slurm" else {"logins": ["login"]}
        at = provider(f"{self.kind}-1", launcher={"kind": self.kind, **common, **own, **changed}, accelerator={"kind": "cpu", "count": 1})
        trial = a_trial(provider=at, declare={"parallelism": {"strategy": "ddp", "nodes": nodes, "processes": 1}} if nodes > 1 else None)
        stores.home().put(stores.planned_path(trial.campaign_id, trial.trial_id), trial.model_dump_json().encode())
        return trial


def spec_of(trial: Trial) -> dict[str, str]:
    return {"campaign_id": trial.campaign_id, "trial_id": trial.trial_id, "title": "a trial"}


def records(trial: Trial) -> list[LaunchRecord]:
    store = stores.home()
    found = [store.launch(folder) for folder in store.attempts(trial.campaign_id, trial.trial_id)]
    return [record for record in found if record is not None]


def jobs_of(trial: Trial) -> BatchJobs:
    launcher = launcher_for(trial.provider)
    assert isinstance(launcher, BatchJobs)
    return launcher


def until(holds: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sshd, SlurmCluster | None]]:
    folder = tmp_path_factory.mktemp("login")
    with ExitStack() as stack:
        cluster = None
        if not needs_slurm.args[0]:
            with suppress(NoSlurm):
                cluster = stack.enter_context(slurm(folder / "slurm"))
        settings = {} if cluster is None else {"SLURM_CONF": str(cluster.conf)}
        yield stack.enter_context(sshd(folder / "sshd", **settings)), cluster


@pytest.fixture(params=["ssh", "slurm"])
def batch(
    request: pytest.FixtureRequest, servers: tuple[Sshd, SlurmCluster | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Batch:
    login, cluster = servers
    if request.param == "slurm" and cluster is None:
        pytest.skip("needs slurmctld, slurmd, munge and root, and daemons that start here")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PLUMBLINE_RESULTS_URL", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_LOGIN", login.connection())
    (tmp_path / "measured.py").write_text(f"import sys; sys.path[:0] = sys.path and []\nimport plumbline\n{MEASURED}")
    (tmp_path / "python").write_text(PYTHON.format(python=shlex.quote(sys.executable), measured=shlex.quote(str(tmp_path / "measured.py"))))
    (tmp_path / "python").chmod(0o755)
    return Batch(tmp_path, request.param, login, cluster)


pytestmark = [needs_sshd]


def test_a_trial_is_measured_and_leaves_nothing(batch: Batch) -> None:
    trial = batch.trial()
    assert run.run_trial(spec_of(trial)) == {"trial_id": trial.trial_id, "exit_code": 0}
    (record,) = records(trial)
    assert (record.launcher, record.failure_class) == (batch.kind, None), record.failure_detail
    assert {"requested", "started", "finished"} <= {event.name for event in record.events}
    assert "measuring" in record.log_tail
    times = {row.metric: row.value for row in launch_metrics(record)}
    assert all(times[name] is not None and 0 <= times[name] < 60 for name in ("job_queue_time", "provisioning_lead_time")), times
    document = collect.collect_trial(spec_of(trial))
    assert document["status"] == "valid", document
    assert list((batch.folder / "remote" / "launches").iterdir()) == []
    assert not jobs_of(trial).leftovers(trial.provider).total


def test_an_exit_is_a_harness_error_with_its_last_words(batch: Batch) -> None:
    trial = batch.trial(code="7")
    with pytest.raises(TrialFailure, match="exit status 7: measuring"):
        run.run_trial(spec_of(trial))
    assert [record.failure_class for record in records(trial)] == ["harness_error"]


def test_a_deadline_holds_where_it_runs(batch: Batch) -> None:
    if batch.kind == "slurm":
        pytest.skip("Slurm's shortest limit is a minute; see the marker full")
    trial = batch.trial(lasts_s=600.0, timeout="2s")
    with pytest.raises(TrialFailure, match=r"exceeded launcher.timeout, 2 s"):
        run.run_trial(spec_of(trial))
    assert [record.failure_class for record in records(trial)] == ["timeout"]


def task(batch: Batch, trial: Trial) -> subprocess.Popen[bytes]:
    """The trial's task in a process of its own, as Airflow starts it."""
    code = (
        f"from plumbline.workflows.run import run_trial, stopped_by_sigterm\nwith stopped_by_sigterm():\n    run_trial({spec_of(trial)!r})"
    )
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": search_path(ROOT)}, stderr=subprocess.DEVNULL)


def begun(batch: Batch) -> bool:
    return any((folder / "began").exists() for folder in (batch.folder / "remote" / "launches").glob("pl-*"))


@pytest.mark.fault(
    "the task of a job is killed", ends="the next try adopts the job; settled, it is interrupted", keeps="the job, until it is settled"
)
def test_a_job_outlives_its_killed_task_and_is_settled(batch: Batch) -> None:
    trial = batch.trial(lasts_s=600.0)
    running = task(batch, trial)
    until(lambda: begun(batch))
    running.kill()
    running.wait()
    launcher = jobs_of(trial)
    assert launcher.leftovers(trial.provider).running == {trial.campaign_id: 1}
    assert [record.failure_detail for record in records(trial)] == [UNFINISHED]
    attempt, record = launcher.adopt(spec_of(trial))
    assert record is None and attempt.trial.attempt == 1 and attempt.lives()
    assert collect.collect_trial(spec_of(trial), settle=True)["failure_class"] == "interrupted"
    assert not launcher.leftovers(trial.provider).total


@pytest.mark.fault("the task of a job is ended by Airflow", ends="its job is cancelled", keeps="nothing where it ran")
def test_a_task_that_is_stopped_cancels_its_job(batch: Batch) -> None:
    trial = batch.trial(lasts_s=600.0)
    running = task(batch, trial)
    until(lambda: begun(batch))
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) != 0
    until(lambda: not jobs_of(trial).leftovers(trial.provider).total)


def test_what_outlived_its_launch_is_swept(batch: Batch) -> None:
    trial = batch.trial(lasts_s=600.0)
    launcher = jobs_of(trial)
    attempt, _ = launcher.adopt(spec_of(trial))
    launcher.submit(attempt)
    launcher.submit(attempt)  # once for its name
    assert launcher.leftovers(trial.provider).total == 1
    assert launcher.sweep(trial.provider) == [], "it is young"
    assert launcher.sweep(trial.provider, trial.campaign_id) == [f"job {attempt.name}"]
    until(lambda: not launcher.leftovers(trial.provider).total)


def test_wrong_keys_and_folders_are_one_sentence(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = batch.trial(folder="/proc/nowhere")
    with pytest.raises(BadDeclaration, match=r"root@127.0.0.1"):
        run.run_trial(spec_of(trial))
    assert [record.failure_class for record in records(trial)] == ["bad_declaration"]
    other = (batch.login.folder / "client.pub").read_text()
    monkeypatch.setenv("AIRFLOW_CONN_LOGIN", batch.login.connection(host_key=other))
    with pytest.raises(BadDeclaration, match="shows another host key"):
        run.run_trial(spec_of(replace(batch, kind=batch.kind).trial()))


def assert_measured_while_away(batch: Batch, stop: Callable[[], None], start: Callable[[], None]) -> None:
    """What is stopped for seconds, from the middle of a trial beyond its end, costs it nothing."""
    trial = batch.trial(lasts_s=4.0)
    running = task(batch, trial)
    until(lambda: begun(batch))
    stop()
    try:
        time.sleep(5)
    finally:
        start()
    assert running.wait(120) == 0
    assert [record.failure_class for record in records(trial)] == [None]


@pytest.mark.fault("the login is away while a job measures", ends="measured, one attempt", keeps="the job and its result")
def test_a_login_that_is_away_loses_nothing(batch: Batch) -> None:
    assert_measured_while_away(batch, batch.login.stop, batch.login.start)


def test_a_gang_of_two_meets_at_its_first_node(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SECOND", batch.login.connection())
    trial = batch.trial(nodes=2, **({"logins": ["login", "second"]} if batch.kind == "ssh" else {}))
    assert run.run_trial(spec_of(trial))["exit_code"] == 0
    (record,) = records(trial)
    assert record.failure_class is None
    assert collect.collect_trial(spec_of(trial))["status"] == "valid"
    if batch.kind == "slurm":
        assert record.node["job.nodes"] == "n[1-2]"


@pytest.mark.fault(
    "the guard of a machine is killed", ends="interrupted; its trial is ended by the reaper", keeps="the attempt; nothing runs on"
)
def test_a_killed_guard_leaves_nothing(batch: Batch) -> None:
    if batch.kind == "slurm":
        pytest.skip("Slurm guards its jobs itself")
    trial = batch.trial(lasts_s=600.0)
    running = task(batch, trial)
    until(lambda: begun(batch))
    (folder,) = (batch.folder / "remote" / "launches").glob("pl-*")
    guard = psutil.Process(int((folder / "guard").read_text()))
    below = guard.children(recursive=True)
    assert below
    guard.kill()
    assert running.wait(60) != 0
    assert [record.failure_class for record in records(trial)] == ["interrupted"]
    until(lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in below))


@pytest.mark.fault(
    "a node of Slurm's goes down while a job measures", ends="provider_fault, tried again", keeps="the state and reason that Slurm gives"
)
def test_a_lost_node_is_the_providers(batch: Batch) -> None:
    if batch.cluster is None or batch.kind == "ssh":
        pytest.skip("needs a Slurm")
    trial = batch.trial(lasts_s=600.0)
    running = task(batch, trial)
    until(lambda: begun(batch))
    try:
        for name in ("n1", "n2"):
            batch.cluster.run("scontrol", "update", f"nodename={name}", "state=down", "reason=test")
        assert running.wait(90) != 0
    finally:
        for name in ("n1", "n2"):
            with suppress(subprocess.CalledProcessError):  # it may be back by itself
                batch.cluster.run("scontrol", "update", f"nodename={name}", "state=resume")
    (record,) = records(trial)
    assert record.failure_class == "provider_fault", record.failure_detail
    assert "NODE_FAIL" in (record.failure_detail or "")


@pytest.mark.fault("Slurm's controller is away while a job measures", ends="measured, one attempt", keeps="the job and its result")
def test_a_controller_that_is_away_loses_nothing(batch: Batch) -> None:
    if batch.cluster is None or batch.kind == "ssh":
        pytest.skip("needs a Slurm")
    assert_measured_while_away(batch, batch.cluster.stop_controller, batch.cluster.start_controller)


def test_a_doctor_says_what_a_launch_would_meet(batch: Batch) -> None:
    now = datetime.now(timezone.utc)

    def checked(**changed: Any) -> dict[str, DoctorCheck]:
        trial = batch.trial(**changed)
        return {check.check: check for check in jobs_of(trial).doctor(declared(), trial.provider, now)}

    sound = checked()
    assert {check.status for check in sound.values()} == {"ok"}, sound
    assert {"login", "clock", "folder", "Python", "harness"} < set(sound)
    assert ("a job of ours" if batch.kind == "slurm" else "programs of the guard") in sound
    assert "torch" in checked(python="/usr/bin/python3")["Python"].found
    assert "not found" in checked(python="/nowhere/python")["Python"].found
    assert checked(folder="/proc/nowhere")["folder"].status == "failed"
    if batch.kind == "slurm":
        assert checked(partition="nowhere")["partition"].status == "failed"
        assert "node configuration" in checked(cores=4096)["a job of ours"].found
    else:
        assert checked(logins=["login", "unknown"])["login"].status == "failed"


def test_what_no_node_has_is_refused_at_once(batch: Batch) -> None:
    if batch.kind == "ssh":
        pytest.skip("a machine has no partitions")
    trial = batch.trial(partition="nowhere")
    with pytest.raises(BadDeclaration, match="invalid partition"):
        run.run_trial(spec_of(trial))
    full = batch.trial(schedule_timeout="2s", constraint="unknown")
    with pytest.raises(TrialFailure, match="feature"):
        run.run_trial(spec_of(full))
