"""The question to a person in a real Airflow with the LocalExecutor: a simulated provider slows down, the review asks, each answer is carried
out. One server serves all of it, because starting one costs more than everything else here; the tests follow one another.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.fakes.simulated_campaigns import config

from plumbline.archive import FindingView, open_archive
from plumbline.declarations import installation_paths, load
from plumbline.embedded.client import AirflowClient, DagRun
from plumbline.embedded.server import AirflowServer
from plumbline.embedded.settings import USERNAME
from plumbline.launch.plan import RunRequest, plan
from plumbline.launch.simulated.launcher import simulate
from plumbline.workflows.baseline_decision import TIMED_OUT
from plumbline.workflows.plan import ACCEPT, ACTION_DAG, KEEP, RERUN
from plumbline.workflows.review import review_campaign

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

BENCHMARK, REVIEW, DECISION = "benchmark_sim", "drift_review", "baseline_decision"
SLOWER = {"kind": "step", "since": "2024-04-01", "worse": "20%"}
QUIET = ["2024-01", "2024-02", "2024-03"]
Found = TypeVar("Found")


@dataclass
class World:
    """A running Airflow and a configuration that a test may change under it."""

    server: AirflowServer
    client: AirflowClient
    config: Path

    def wait_until(self, look: Callable[[], Found], what: str, limit_s: float = 180.0) -> Found:
        """The first answer of `look` that is true; AssertionError, with every task's state, if there is none in time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.server.check()
            if found := look():
                return found
            time.sleep(0.5)
        runs = [r for dag in (BENCHMARK, REVIEW, DECISION) for r in self.client._runs(dag, {})]
        states = [f"{r.dag_id} {r.run_id} {t.task_id} {t.state}" for r in runs for t in self.client.tasks(r.dag_id, r.run_id)]
        raise AssertionError(f"no {what} after {limit_s:g} s\n" + "\n".join(states))

    def review(self, campaign: str) -> DagRun:
        """Review a campaign by hand, as a person would, to the end."""
        run = self.client.trigger(REVIEW, {"campaign": campaign, "provider": "sim"})
        return self.ended(REVIEW, run.run_id)

    def asked(self, finding: FindingView, campaign: str) -> dict[str, Any]:
        """The question about a finding, once it waits for a person."""
        run_id = f"{finding.finding_id}_{campaign}"

        def waiting() -> dict[str, Any] | None:
            tasks = self.client.tasks(DECISION, run_id) if self.run_of(DECISION, run_id) else []
            if any(t.task_id == "question" and t.state == "awaiting_input" for t in tasks) and self.settled(run_id):
                return dict(self.client._call("GET", _question(run_id)))
            return None

        return self.wait_until(waiting, f"question {run_id}")

    def settled(self, run_id: str) -> bool:
        """Whether the scheduler has seen the question's process end. No person is faster; an answer before that makes Airflow 3.3.2 take the
        resumed task for one that was killed, and ask once more what is answered already."""
        log = (self.server.home / "logs" / "scheduler.log").read_text()
        return any(run_id in line and "task_id='question'" in line for line in log.splitlines() if "Received executor event" in line)

    def answer(self, finding: FindingView, campaign: str, chosen: str, why: str) -> DagRun:
        """Answer as Airflow's page does, and wait for the end of the run."""
        run_id = f"{finding.finding_id}_{campaign}"
        self.client._call("PATCH", _question(run_id), {"chosen_options": [chosen], "params_input": {"why": why}})
        return self.ended(DECISION, run_id)

    def clear(self, finding: FindingView, campaign: str, task_id: str) -> None:
        """Clear a task of the finding's question, as a person does when what was in its way is gone."""
        asked = {"dry_run": False, "task_ids": [task_id], "dag_run_id": f"{finding.finding_id}_{campaign}", "only_failed": True}
        self.client._call("POST", f"/api/v2/dags/{DECISION}/clearTaskInstances", asked)

    def ended(self, dag_id: str, run_id: str) -> DagRun:
        """A run, once it is over."""

        def over() -> DagRun | None:
            run = self.run_of(dag_id, run_id)
            return run if run is not None and run.ended else None

        run = self.wait_until(over, f"end of {dag_id} {run_id}")
        assert run is not None
        return run

    def run_of(self, dag_id: str, run_id: str) -> DagRun | None:
        """The run of that id, if there is one."""
        return next((r for r in self.client._runs(dag_id, {}) if r.run_id == run_id), None)

    def declare(self, file: str, section: str, **fields: Any) -> None:
        """Change fields of a declaration."""
        path = self.config / file
        declared = yaml.safe_load(path.read_text())
        declared[section].update(fields)
        path.write_text(yaml.safe_dump(declared))


def _question(run_id: str) -> str:
    return f"/api/v2/dags/{DECISION}/dagRuns/{run_id}/taskInstances/question/-1/hitlDetails"


def measured(campaign: str, at: datetime) -> None:
    """A campaign straight into the archive: what a benchmark of that time would have recorded."""
    declared = load()
    with open_archive() as archive:
        for trial in plan(declared, declared.providers["sim"], RunRequest(campaign, "a test"), at, ("training",)):
            archive.record(simulate(trial), uri="file:///nowhere")


def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three quiet months in the archive, and a slower one that nobody has reviewed yet."""
    home = tmp_path_factory.mktemp("decision")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLUMBLINE_HOME", str(home))
        for name in ("PLUMBLINE_RESULTS_URL", "PLUMBLINE_ARCHIVE_URL"):
            patch.delenv(name, raising=False)
        folder = config(home, [SLOWER])
        patch.setenv("PLUMBLINE_CONFIG", str(folder))
        for other in (folder / "workloads" / "inference", folder / "teams"):
            shutil.rmtree(other)
        workload = folder / "workloads" / "training" / "gpt-tiny-cpu.yaml"
        workload.write_text(yaml.safe_dump({**yaml.safe_load(workload.read_text()), "repeats": {"per_slot": 4, "slots": ["02:00"]}}))
        for month in range(1, 5):
            measured(f"2024-0{month}", datetime(2024, month, 1, 2, tzinfo=timezone.utc))
            if month < 4:
                review_campaign(f"2024-0{month}", "sim")
        server = AirflowServer(installation_paths().airflow_home)
        with server.start(), server.client() as client:
            made = World(server, client, folder)
            made.wait_until(lambda: {BENCHMARK, REVIEW, DECISION} <= set(client.dags()), "DAGs")
            yield made


@pytest.fixture(scope="module")
def slower(world: World) -> FindingView:
    """What the review of the slower month found."""
    assert world.review("2024-04").state == "success", "the question waits for a person, the review does not"
    with open_archive() as archive:
        (found,) = archive.findings_of("sim")
    return found


def state_of(finding: FindingView) -> tuple[str, list[str]]:
    """The finding's state, and what its series is held against."""
    with open_archive() as archive:
        return archive.finding(finding.finding_id).state, archive.baseline(finding.series_key)


def last_word(finding: FindingView) -> tuple[str, str, str]:
    """Who last decided what about the finding, and why."""
    with open_archive() as archive:
        entry = [e for e in archive.audit(finding.finding_id) if e.who != "drift"][-1]
    return entry.who, entry.what, entry.why


def test_a_button_of_the_pages_acts_in_a_worker(world: World, slower: FindingView) -> None:
    world.client.login()
    http = world.client._http
    token = re.findall(r'name="form" value="([^"]+)"', http.get(f"/plumbline/findings/{slower.finding_id}").text)[0]
    form = {"form": token, "action": "snooze", "until": "2d", "why": "a button"}
    assert [http.post("/plumbline/findings/act", data=form).status_code for _ in range(2)] == [303, 409]
    (run,) = world.client._runs(ACTION_DAG, {})
    assert world.ended(ACTION_DAG, run.run_id).state == "success"
    with open_archive() as archive:
        assert archive.finding(slower.finding_id).snoozed_until is not None
        assert [(e.who, e.why) for e in archive.audit(slower.finding_id) if e.what == "finding_snoozed"] == [(USERNAME, "a button")]
    replayed = world.client.trigger(ACTION_DAG, run.conf)
    assert world.ended(ACTION_DAG, replayed.run_id).state == "failed"
    with open_archive() as archive:
        assert [e.who for e in archive.audit(slower.finding_id) if e.what == "request_refused"] == [USERNAME]


def test_a_question_appears_in_an_airflow_that_nobody_has_touched(world: World, slower: FindingView) -> None:
    asked = world.asked(slower, "2024-04")
    assert {"PAGE", "SIMULATED", "sim", "training", "gpt-tiny-cpu", "step_time"} <= set(asked["subject"].split())
    assert (asked["options"], asked["defaults"]) == ([ACCEPT, KEEP, RERUN], [KEEP])
    assert ", ".join(QUIET) in asked["body"], "the campaigns of the baseline"


def test_while_one_question_waits_the_same_finding_is_not_asked_about_again(world: World, slower: FindingView) -> None:
    measured("2024-05", datetime(2024, 5, 1, 2, tzinfo=timezone.utc))
    world.review("2024-05")
    assert world.run_of(DECISION, f"{slower.finding_id}_2024-05") is None


def test_a_rerun_measures_again_and_its_review_asks_again_and_accepting_takes_the_newest_campaign(
    world: World, slower: FindingView
) -> None:
    why = "was it the node?"
    assert world.answer(slower, "2024-04", RERUN, why).state == "failed", "its benchmark is paused"
    assert last_word(slower) == ("admin", "rerun_asked", why)
    assert state_of(slower) == ("open", QUIET)
    world.client.set_paused(BENCHMARK, False)
    world.clear(slower, "2024-04", "rerun")

    def confirmed() -> DagRun | None:
        runs = [r for r in world.client._runs(BENCHMARK, {}) if r.ended]
        return runs[0] if runs else None

    rerun = world.wait_until(confirmed, "rerun")
    assert rerun is not None
    assert (rerun.state, rerun.conf["workloads"], rerun.conf["kinds"]) == ("success", ["gpt-tiny-cpu"], ["training"])
    with open_archive() as archive:
        newest = archive.latest_campaign(slower.series_key)
    assert newest is not None and newest.startswith("od-")
    assert newest in world.asked(slower, newest)["body"]
    why = "the new kernel stays"
    assert world.answer(slower, newest, ACCEPT, why).state == "success"
    assert state_of(slower) == ("accepted", [newest])
    assert last_word(slower) == ("admin", "finding_accepted", why)


def test_no_answer_keeps_the_baseline_and_the_next_campaign_asks_again(world: World, slower: FindingView) -> None:
    """The slowness is over, which is drift too against the baseline that was accepted."""
    _, accepted = state_of(slower)
    world.declare("providers/sim.yaml", "launcher", drift=[])
    world.declare("thresholds.yaml", "drift", answer_within="5s")
    measured("faster-1", now())
    world.review("faster-1")
    with open_archive() as archive:
        (faster,) = archive.findings_of("sim", unsettled=True)
    # Airflow looks once a minute for questions whose time is over.
    assert world.ended(DECISION, f"{faster.finding_id}_faster-1").state == "success"
    assert last_word(faster)[:2] == (TIMED_OUT, "baseline_kept")
    assert state_of(faster) == ("open", accepted)
    world.declare("thresholds.yaml", "drift", answer_within="7d")
    measured("faster-2", now() + timedelta(seconds=1))
    world.review("faster-2")
    world.asked(faster, "faster-2")
    assert world.answer(faster, "faster-2", KEEP, "").state == "success"
    assert last_word(faster) == ("admin", "baseline_kept", f"{KEEP} (no reason given)")
    assert state_of(faster) == ("acknowledged", accepted)
