"""A real Airflow with the LocalExecutor: one campaign to its end, stopped; and one killed in the middle of a campaign, started again.

One server serves all checks, because starting one costs more than everything else here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from tests.fakes.quick_python import search_path

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths, load
from plumbline.embedded import server
from plumbline.embedded.campaign import CampaignOutcome, CampaignState, run_campaign
from plumbline.embedded.client import AirflowClient, DagRun
from plumbline.embedded.server import AirflowServer
from plumbline.launch.plan import RunRequest, planned_trials
from plumbline.results import ResultStore
from plumbline.results.evidence_files import damaged_files

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]  # `make run` takes the same path

ROOT = Path(__file__).resolve().parents[2]
DAG = "benchmark_local_1core"
SHORT = """
steps: {discard: 2, measure: 60}
checkpoint: {every: 31, keep: 1}
loss: {low: 0.1, high: 20.0}
"""
# Started as a command would be, then killed: with its supervisor, so that nobody is left who could clean up.
DOOMED = """
import os, signal
from plumbline.declarations import load, installation_paths
from plumbline.embedded.server import AirflowServer
from plumbline.embedded.campaign import run_campaign
declared, asked = load(), RunRequest("doomed", "a test", kinds=("training",))
planned = planned_trials(declared, asked)
def look(state):
    if any(t.fraction > 0 for t in state.running):
        os.kill(server._process.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
server = AirflowServer(installation_paths().airflow_home)
with server.start():
    run_campaign(server, declared, asked, planned, look)
"""
PROBE = """
from airflow.sdk import dag, task

@dag(schedule=None, start_date=None)
def database_probe():
    @task(retries=0)
    def archive():
        from plumbline.archive import open_archive
        with open_archive() as found:
            return len(found.campaigns())

    @task(retries=0)
    def metadata():
        from airflow.models import DagRun
        from airflow.settings import Session
        return Session().query(DagRun).count()

    archive()
    metadata()

database_probe()
"""


@dataclass
class Smoke:
    """What the one campaign showed."""

    server: AirflowServer
    client: AirflowClient
    outcome: CampaignOutcome
    states: list[CampaignState]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installation(tmp_path_factory.mktemp("smoke")) as folder:
        yield folder


@contextmanager
def installation(folder: Path) -> Iterator[Path]:
    """One provider, one short workload, a machine of its own (so that other trials here do not matter), a second bundle of DAGs."""
    # What economics.yaml says is of workloads that are not kept here.
    config = Path(shutil.copytree(ROOT / "include" / "config", folder / "config", ignore=shutil.ignore_patterns("economics.yaml")))
    for path in (config / "providers").glob("*.yaml"):
        if path.stem != "local-1core":
            path.unlink()
    provider = config / "providers" / "local-1core.yaml"
    provider.write_text(provider.read_text().replace("machine: this-machine", f"machine: smoke-{os.getpid()}"))
    for path in [*(config / "workloads").rglob("*.yaml"), *(config / "teams").glob("*.yaml")]:
        if path.stem != "gpt-tiny-cpu":
            path.unlink()
    workload = config / "workloads" / "training" / "gpt-tiny-cpu.yaml"
    dropped = ("steps:", "checkpoint:", "fault:", "loss:", "repeats:", "acceptance:", "  - ")
    kept = [line for line in workload.read_text().splitlines() if not line.startswith(dropped)]
    workload.write_text("\n".join(kept) + SHORT + 'repeats: {per_slot: 1, slots: ["02:00"]}\n')
    (folder / "probe").mkdir()
    (folder / "probe" / "database_probe.py").write_text(PROBE)
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [
        {"name": "dags-folder", "classpath": local, "kwargs": {}},
        {"name": "probe", "classpath": local, "kwargs": {"path": str(folder / "probe")}},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(folder / "home"))
        patch.setenv("PLUMBLINE_CONFIG", str(config))
        patch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
        for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
            patch.delenv(name, raising=False)
        yield folder


def killed_campaign(folder: Path) -> list[psutil.Process]:
    """The processes of a campaign whose command and supervisor were killed while a trial ran."""
    env = {**os.environ, "PYTHONPATH": search_path(ROOT / "include")}
    log = folder / "doomed.log"
    with log.open("w") as out:
        command = subprocess.Popen([sys.executable, "-c", DOOMED], env=env, stdout=out, stderr=subprocess.STDOUT)
    family: list[psutil.Process] = []
    try:
        while command.poll() is None:
            try:
                family = list({*family, *psutil.Process(command.pid).children(recursive=True)})
            except psutil.NoSuchProcess:
                break
            time.sleep(0.2)
    finally:
        command.kill()
    assert command.wait() == -signal.SIGKILL, log.read_text()
    return family


@pytest.fixture(scope="module")
def smoke(settings: Path) -> Iterator[Smoke]:
    declared = load()
    asked = RunRequest("smoke", "a test", kinds=("training",))
    planned = planned_trials(declared, asked)
    states: list[CampaignState] = []
    server = AirflowServer(installation_paths().airflow_home)
    with server.start(), server.client() as client:
        outcome = run_campaign(server, declared, asked, planned, states.append)
        yield Smoke(server, client, outcome, states)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_the_campaign_ends_with_a_recorded_trial_a_review_and_a_report(smoke: Smoke) -> None:
    assert smoke.outcome.problems == ()
    (trial,) = smoke.outcome.trials
    assert trial.phase == "measured"
    assert trial.status in ("valid", "degraded", "invalid"), "a busy machine is no failure"
    assert smoke.outcome.report is not None
    assert Path(smoke.outcome.report).read_text().startswith("<!")
    with open_archive() as archive:
        (found,) = archive.trials("smoke")
        assert (found.trial_id, found.status) == (trial.trial_id, trial.status)
        assert found.run_id is not None
    store = ResultStore(installation_paths().results_url)
    document = store.collected(f"smoke/{trial.trial_id}/attempt-1")
    assert damaged_files(store, document) == []
    reviews = smoke.client.runs("drift_review", smoke.server.started_at)
    assert [(r.run_type, r.state) for r in reviews] == [("asset_triggered", "success")]
    assert (installation_paths().data_docs / "smoke-local-1core-training").is_dir()


def test_progress_was_told_while_the_trial_ran(smoke: Smoke) -> None:
    fractions = [t.fraction for s in smoke.states for t in s.running]
    assert any(0 < f < 1 for f in fractions)
    assert smoke.states[-1].stage == "done"
    assert smoke.states[-1].ended == len(smoke.outcome.trials)
    assert not list(installation_paths().work.glob("*.progress"))


def test_nothing_that_runs_by_the_clock_is_left_unpaused_and_no_slot_started_by_itself(smoke: Smoke) -> None:
    paused = dict.fromkeys(
        (DAG, "provider_watch", "availability_watch", "scorecard_report", "upkeep", "upkeep_daily", "database_probe"), True
    )
    answering = dict.fromkeys(("drift_review", "baseline_decision", "finding_action", "operations_log", "rerun", "acceptance"), False)
    assert {d: s.is_paused for d, s in smoke.client.dags().items()} == paused | answering
    assert [(r.run_type, r.state) for r in smoke.client._runs(DAG, {})] == [("manual", "success")]


def test_only_loopback_listens_and_only_the_logged_in_are_answered(smoke: Smoke) -> None:
    record = server.read_record(smoke.server.home / "server.json")
    assert record is not None
    family = server.remaining_processes(record)
    listening = {c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    for path in ("/api/v2/dags", "/api/v2/config", "/api/v2/connections"):
        assert httpx.get(smoke.server.address + path).status_code == 401, path


def test_tasks_reach_our_archive_and_not_the_metadata_database(smoke: Smoke) -> None:
    client = smoke.client
    run: DagRun = client.trigger("database_probe", {})
    client.set_paused("database_probe", False)
    try:
        deadline = time.monotonic() + 300
        while not run.ended and time.monotonic() < deadline:
            time.sleep(0.5)
            run = client.run(run.dag_id, run.run_id)
    finally:
        client.set_paused("database_probe", True)
    tasks = {t.task_id: t for t in client.tasks(run.dag_id, run.run_id)}
    assert tasks["archive"].state == "success"
    assert tasks["metadata"].state == "failed"
    assert "Direct database access" in client.task_log(run.dag_id, run.run_id, tasks["metadata"])


def test_stopping_leaves_nothing(smoke: Smoke) -> None:
    """The last one here: it stops the server."""
    record = server.read_record(smoke.server.home / "server.json")
    assert record is not None
    assert len(server.remaining_processes(record)) > 4
    smoke.server.stop()
    assert server.remaining_processes(record) == []
    assert not (smoke.server.home / "server.json").exists()
    smoke.server.stop()


@pytest.mark.full  # tests/unit/embedded/test_leftovers.py: what a killed supervisor left is ended
def test_what_a_killed_command_left_is_gone_and_its_run_does_not_go_on(tmp_path: Path) -> None:
    with installation(tmp_path) as folder:
        family = killed_campaign(folder)
        assert len(family) > 4
        started = AirflowServer(installation_paths().airflow_home)
        with started.start(), started.client() as client:
            assert alive(family) == []
            assert {r.conf["campaign"]: r.state for r in client._runs(DAG, {})} == {"doomed": "failed"}
