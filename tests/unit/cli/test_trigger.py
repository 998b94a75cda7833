"""`plumbline trigger` and `plumbline budget` against an Airflow that answers like a real one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow
from tests.fakes.trials import CONFIG
from tests.golden import Golden
from typer.testing import Result

from plumbline.archive import open_archive
from plumbline.embedded import client

Plumbline = Callable[..., Result]
DAG = "benchmark_local_1core"
ASK = ("trigger", "local-1core", "--workload", "gpt-tiny-cpu", "--repeats", "2", "--campaign", "od-1")


@pytest.fixture
def config(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(shutil.copytree(CONFIG, home / "config")))
    return home / "config"


@pytest.fixture
def airflow(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    with fake_airflow() as fake:
        fake.dags = [{"dag_id": DAG, "is_paused": False, "is_stale": False, "last_parsed_time": "2026-11-21T10:00:00Z"}]
        for name, value in ((client.ADDRESS, fake.address), (client.USER, "me"), (client.PASSWORD, "right")):
            monkeypatch.setenv(name, value)
        yield fake


def limit(config: Path, usd: float) -> None:
    file = config / "providers" / "local-1core.yaml"
    file.write_text(f"{file.read_text()}budget: {{usd_per_month: {usd}}}\n")


def test_it_says_what_it_started_and_where_to_look(airflow: FakeAirflow, plumbline: Plumbline) -> None:
    done = plumbline(*ASK, "--reason", "new driver")
    assert done.exit_code == 0, done.output
    assert "od-1: new driver" in done.stdout
    assert "local-1core: 2 trials" in done.stdout
    assert f"{airflow.address}/dags/{DAG}/runs/{quote(airflow.runs[DAG][0]['dag_run_id'], safe='')}" in done.stdout
    assert "plumbline scorecard od-1" in done.stdout
    assert airflow.runs[DAG][0]["conf"] == {
        "campaign": "od-1",
        "reason": "new driver",
        "workloads": ["gpt-tiny-cpu"],
        "kinds": ["training"],
        "repeats": 2,
    }


def test_what_is_left_of_the_budget_is_said(config: Path, airflow: FakeAirflow, said: Callable[..., tuple[Any, int]]) -> None:
    limit(config, 0.01)
    ((row,), code) = said(*ASK, "--reason", "new driver")
    assert (code, row["trials"], row["left_out"], row["waits_for"]) == (0, 2, 0, None)
    assert re.findall(r"[\d.]+", row["budget"])[:2] == ["0.00959", "0.01"]
    ((row,), _) = said(*ASK, "--reason", "again")
    assert row["waits_for"] == airflow.runs[DAG][0]["dag_run_id"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trigger", "nowhere", "--reason", "why"), 'no enabled provider is called "nowhere"'),
        ((*ASK, "--reason", "  "), "reason is empty"),
        ((*ASK, "--reason", "why", "--kind", "inference"), "nothing to run"),
    ],
)
def test_what_cannot_be_asked_starts_nothing(airflow: FakeAirflow, plumbline: Plumbline, words: tuple[str, ...], message: str) -> None:
    done = plumbline(*words)
    assert (done.exit_code, airflow.seen) == (2, [])
    assert message in done.stderr
    assert "nothing was started" in done.stderr


def test_without_a_reason_there_is_no_run(airflow: FakeAirflow, plumbline: Plumbline) -> None:
    assert plumbline(*ASK).exit_code == 2
    assert airflow.seen == []


def test_a_spent_budget_starts_nothing_and_says_how_to_go_on(config: Path, airflow: FakeAirflow, plumbline: Plumbline) -> None:
    limit(config, 0.0001)
    done = plumbline(*ASK, "--reason", "why")
    assert (done.exit_code, airflow.seen) == (2, [])
    assert "local-1core: 2 of 2" in done.stderr and "`budget` (0.0001 USD" in done.stderr


def test_a_paused_dag_starts_nothing(airflow: FakeAirflow, plumbline: Plumbline) -> None:
    airflow.dags[0]["is_paused"] = True
    done = plumbline(*ASK, "--reason", "why")
    assert (done.exit_code, airflow.runs) == (2, {})
    assert f"plumbline airflow dags unpause {DAG}" in done.stderr


def test_no_airflow_says_how_to_start_one(home: Path, plumbline: Plumbline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(client.ADDRESS, raising=False)
    done = plumbline(*ASK, "--reason", "why")
    assert done.exit_code == 2
    assert "`plumbline up`" in done.stderr


def test_an_airflow_that_refuses_the_run_is_quoted(airflow: FakeAirflow, plumbline: Plumbline) -> None:
    airflow.answers["POST", f"/api/v2/dags/{DAG}/dagRuns"] = (400, {"detail": "Invalid input for param repeats"})
    done = plumbline(*ASK, "--reason", "why")
    assert done.exit_code == 1
    assert "Invalid input for param repeats" in done.stderr


def test_budget_lists_what_is_used_and_left(
    config: Path, campaigns: Callable[..., None], plumbline: Plumbline, said: Callable[..., tuple[Any, int]], golden: Golden
) -> None:
    open_archive().close()
    golden("cli.budget_of_nothing", plumbline("budget").stdout.strip())
    limit(config, 5)
    found, code = said("budget")
    (row,) = found["budgets"]
    assert (code, found["sums"]) == (0, []), "one provider is its own sum"
    assert (row["provider"], row["usd_per_month"], row["usd_used"], row["usd_left"], row["gpu_hours_left"]) == (
        "local-1core",
        5,
        0,
        5,
        None,
    )
    assert row["rerun_usd"] > 0
    shown = plumbline("budget", "local-1core").stdout
    assert re.search(r"local-1core +USD +5\.00 +0 +5\.00 +\d+\.\d+", shown)
    assert "rerun" not in shown.splitlines()[-1]


def test_a_budget_that_no_monthly_rerun_fits_is_said(config: Path, plumbline: Plumbline) -> None:
    limit(config, 0.0001)
    open_archive().close()
    assert re.search(r"local-1core: .*\b0\.0001 USD", plumbline("budget").stdout)


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", 'no provider is called "nowhere"'), ("local-2core", "local-2core declares no budget")]
)
def test_a_budget_that_is_not_there_is_said(plumbline: Plumbline, name: str, message: str) -> None:
    done = plumbline("budget", name)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_campaign_on_this_machine_meets_the_budget_before_airflow_is_started(config: Path, plumbline: Plumbline) -> None:
    limit(config, 0.0001)
    done = plumbline("run", "--provider", "local-1core", "--workload", "gpt-tiny-cpu")
    assert done.exit_code == 2
    assert "local-1core: " in done.stderr and "0.0001 USD" in done.stderr
    assert "nothing was started" in done.stderr
