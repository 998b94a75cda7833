"""The watch in a real Airflow with the LocalExecutor: a simulated provider's driver changes, and everything after that happens by itself, up to
the message in Slack. One server serves all of it, because starting one costs more than everything else here; the tests follow one another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.driver_change import (
    AFTER,
    BEFORE,
    PROVIDER,
    WORKLOAD,
    Demo,
    DemoResult,
    attributed,
    change_driver,
    measure_quiet_months,
    stage,
)
from tests.fakes.fake_slack import FakeSlack
from tests.fakes.trials import cluster_provider

from plumbline.archive import open_archive
from plumbline.declarations import installation_paths, load
from plumbline.declarations.installation import override_home
from plumbline.embedded.client import TaskInstance, unpause
from plumbline.embedded.server import AirflowServer
from plumbline.workflows import pending_changes

# Two minutes on a quiet machine: tests/unit/workflows goes the same way step by step without Airflow.
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

BENCHMARK = "benchmark_simulated_h100"
DRIVER = f"{BEFORE['driver.version']} → {AFTER['driver.version']}"
NEXT = BEFORE | {"driver.version": "580.65.06"}


@dataclass
class World:
    """What the demo showed, and the Airflow that still runs."""

    demo: Demo
    shown: DemoResult
    slack: FakeSlack

    def tasks(self, dag_id: str, run_id: str) -> dict[str, TaskInstance]:
        """The run's tasks by their ids, of mapped ones the last."""
        return {t.task_id: t for t in self.demo.client.tasks(dag_id, run_id)}

    def reruns(self) -> list[str]:
        """The runs of the benchmark that an event started."""
        runs = self.demo.client.runs(BENCHMARK, self.demo.server.started_at)
        return [r.run_id for r in runs if r.run_type == "asset_triggered"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("watch")
    with FakeSlack() as slack, pytest.MonkeyPatch.context() as patch, override_home(home, stage(home)):
        extra = {"channel": "C0123456789", "base_url": slack.url}
        patch.setenv("AIRFLOW_CONN_PLUMBLINE_SLACK", json.dumps({"conn_type": "slack", "password": slack.token, "extra": extra}))
        patch.delenv("AIRFLOW_CONN_K8S_A", raising=False)
        measure_quiet_months(datetime.now(timezone.utc))
        with AirflowServer(installation_paths().airflow_home) as server, server.client() as client:
            demo = Demo(server, client, installation_paths().config)
            yield World(demo, demo.show(), slack)


def test_a_look_at_what_has_not_changed_starts_nothing(world: World) -> None:
    tasks = world.tasks(pending_changes.AUTHOR, world.shown.quiet.run_id)
    assert world.shown.quiet.state == "success"
    assert {t: tasks[t].state for t in ("watch.look", "watch.rerun", "alert")} == {
        "watch.look": "success",
        "watch.rerun": "skipped",
        "alert": "success",
    }


def test_a_changed_driver_starts_the_benchmark_by_itself_with_the_change_as_its_reason(world: World) -> None:
    shown = world.shown
    assert (shown.watch.state, shown.benchmark.state, shown.benchmark.run_type) == ("success", "success", "asset_triggered")
    assert f"driver.version {DRIVER}" in shown.reason
    with open_archive() as archive:
        trials = archive.trials(shown.campaign_id)
        documents = [archive.document(t.trial_id, t.attempt) for t in trials]
    assert {d.trial.reason for d in documents if d is not None} == {shown.reason}
    assert {t.workload for t in trials} == {WORKLOAD} and len(trials) == 4
    assert world.reruns() == [shown.benchmark.run_id]


def test_the_review_explains_the_slowdown_by_it_and_no_fact_has_two_findings(world: World) -> None:
    assert attributed(world.shown)
    environment = [f for f in world.shown.findings if f.kind == "environment"]
    assert len(environment) == 1
    assert DRIVER in environment[0].headline
    (slower,) = (f for f in world.shown.findings if f.kind == "performance")
    assert slower.campaign_id == world.shown.campaign_id


def test_people_are_told_once_of_each(world: World) -> None:
    said = [
        message["blocks"][0]["text"]["text"] for message in world.slack.shown() if message.get("thread_ts", message["ts"]) == message["ts"]
    ]
    assert len(said) == len(world.shown.findings) == 2
    assert any("environment changed" in text and DRIVER in text for text in said)
    assert any("slower" in text for text in said)
    assert all("SIMULATED" in text for text in said)


def test_a_change_soon_after_is_held_back_and_not_lost_and_who_cannot_be_looked_at_is_alone_with_it(world: World) -> None:
    other = cluster_provider("locked-out")  # its connection was never made
    file = world.demo.config / "providers" / "locked-out.yaml"
    file.write_text(yaml.safe_dump(json.loads(other.model_dump_json(exclude_none=True))))
    try:
        change_driver(world.demo.config, datetime.now(timezone.utc), NEXT)
        unpause(world.demo.server.home, world.demo.client, [pending_changes.AUTHOR, BENCHMARK])
        run = world.demo.look()
    finally:
        file.unlink()
    tasks = world.demo.client.tasks(pending_changes.AUTHOR, run.run_id)
    states = {(t.task_id, t.state) for t in tasks}
    assert run.state == "failed", "somebody should look"
    assert {("watch.look", "failed"), ("watch.look", "success"), ("watch.rerun", "skipped"), ("alert", "success")} <= states
    logs = [
        world.demo.client.task_log(pending_changes.AUTHOR, run.run_id, t)
        for t in tasks
        if t.task_id == "watch.rerun" and t.state == "skipped"
    ]
    assert any(f"{AFTER['driver.version']} → {NEXT['driver.version']}" in log for log in logs)
    assert world.reruns() == [world.shown.benchmark.run_id]
    with open_archive() as archive:
        assert pending_changes.providers_with_pending_changes(archive, load()) == [PROVIDER]


def test_what_was_held_back_is_sent_later(world: World) -> None:
    """The hour is over, here because it is declared to be short."""
    file = world.demo.config / "providers" / f"{PROVIDER}.yaml"
    declared: dict[str, Any] = yaml.safe_load(Path(file).read_text())
    file.write_text(yaml.safe_dump(declared | {"watch": {"debounce": "0s"}}))
    run = world.demo.look()
    tasks = world.tasks(pending_changes.AUTHOR, run.run_id)
    assert (run.state, tasks["watch.rerun"].state) == ("success", "success")
    second = world.demo.until(lambda: next(iter(world.reruns()[1:]), None), "second rerun")
    (event,) = world.demo.client.upstream_events(BENCHMARK, second)
    assert all(f"{fact} {AFTER[fact]} → {value}" in event["reason"] for fact, value in NEXT.items())
    with open_archive() as archive:
        world.demo.until(lambda: not pending_changes.providers_with_pending_changes(archive, load()), "run that began")
