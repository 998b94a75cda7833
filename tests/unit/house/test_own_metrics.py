"""A workload's own metric on every surface, also by a process that reads it from the archive alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.documented import ROOT
from tests.fakes.quick_python import search_path
from tests.fakes.simulated_campaigns import config

WORKLOAD = """\
kind: training
name: NAME
version: 1
needs: {accelerator: cpu, count: 1}
task:
  kind: container
  command: [box]
  results: {format: jsonl}
  metrics:
    lid_rate: {unit: UNIT, better: higher}
primary: lid_rate in steady
acceptance: [lid_rate >= LEAST in steady, lid_rate within 10% of baseline in steady]
repeats: {per_slot: 3, slots: ["02:00", "14:00"]}
"""
TEAM = """\
name: lids
training:
  workloads: [box]
  weights: {lid_rate: 1.0}
  gates: [lid_rate >= 1/s in steady]
"""
RUN = """\
import json, sys
from fastapi.testclient import TestClient
from typer.testing import CliRunner
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.metrics import METRICS

commands, pages = json.loads(sys.argv[1])
done = [CliRunner().invoke(app, words) for words in commands]
client = TestClient(create_app()) if pages else None
shown = [client.get(page, follow_redirects=True) for page in pages]
print(json.dumps([[[one.exit_code, one.stdout, one.stderr] for one in done], [[one.status_code, one.text] for one in shown], "lid_rate" in METRICS]))
"""
REHEARSE = ("rehearse", "--provider", "sim", "--workload", "box", "--campaigns", "2024-01..2024-04", "--json")

Read = Callable[..., tuple[list[tuple[int, str, str]], list[tuple[int, str]]]]
"""read(*commands, pages=()): exit status, output and errors of each command, and status and text of each page, of one new process."""


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    for name in [name for name in os.environ if name.startswith("PLUMBLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(tmp_path / "config"))

    def call(
        *commands: tuple[str, ...], pages: tuple[str, ...] = (), home: str = "home"
    ) -> tuple[list[tuple[int, str, str]], list[tuple[int, str]]]:
        env = {**os.environ, "PYTHONPATH": search_path(ROOT), "PLUMBLINE_HOME": str(tmp_path / home)}
        command = [sys.executable, "-c", RUN, json.dumps([commands, pages])]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=True, timeout=300)
        answers, shown, changed = json.loads(done.stdout.splitlines()[-1])
        assert changed is False, "the catalogue has the workload's own metric"
        return [tuple(each) for each in answers], [tuple(each) for each in shown]

    return call


def declare(folder: Path, worse: bool) -> None:
    """`worse`: the provider's rate of lids falls in March, by an event that names the workload's own metric."""
    event = {"kind": "step", "since": "2024-03", "worse": "25%", "workloads": ["box"], "metrics": ["lid_rate"]}
    declared = config(folder, [event] if worse else [])
    box = WORKLOAD.replace("NAME", "box").replace("UNIT", "1/s").replace("LEAST", "2/s")
    (declared / "workloads" / "training" / "box.yaml").write_text(box)
    (declared / "teams" / "lids.yaml").write_text(TEAM)


@pytest.mark.integration
def test_an_own_metric_is_shown_from_the_archive_alone(read: Read, tmp_path: Path) -> None:
    declare(tmp_path, worse=True)
    (rehearsed,), _ = read(REHEARSE)
    assert rehearsed[0] == 0, rehearsed[2]
    asked = (("findings", "list", "--all", "--json"), ("scorecard", "--json"), ("decide", "--team", "lids", "--json"))
    (found, scored, decided), _ = read(*asked, home="home/rehearsal")
    (finding,) = (each for each in json.loads(found[1])["findings"] if each["kind"] == "performance")
    assert finding["headline"].startswith("sim runs box 20 % slower since March 2024"), finding["headline"]
    card = next(card for card in json.loads(scored[1])["scorecards"] if card["workload"] == "box")
    row = next(row for row in card["rows"] if row["metric"] == "lid_rate")
    assert (row["unit"], row["direction"], row["group"], row["leading"]) == ("1/s", "higher_is_better", "throughput", True)
    assert decided[0] == 0 and '"unit": "1/s"' in decided[1], decided[1] + decided[2]

    config(tmp_path)  # the workload and its team are declared no more
    pages = ("/", f"/findings/{finding['finding_id']}", "/providers/sim", "/campaigns/2024-04", f"/trials/{row['trials'][0]}")
    answers, shown = read(
        *asked[:2], ("findings", "show", finding["finding_id"]), ("report", "2024-04"), pages=pages, home="home/rehearsal"
    )
    assert [answer[0] for answer in answers] == [0] * 4, answers
    assert json.loads(answers[0][1])["findings"][0]["headline"] == finding["headline"]
    again = next(card for card in json.loads(answers[1][1])["scorecards"] if card["workload"] == "box")
    assert [each for each in again["rows"] if each["metric"] == "lid_rate"] == [row]
    assert "lid rate" in answers[2][1] or "lid_rate" in answers[2][1]
    assert [status for status, _ in shown] == [200] * len(pages)
    for text in (shown[1][1], shown[2][1], shown[4][1]):
        assert "lid rate" in text
    (report,) = (tmp_path / "home" / "rehearsal").rglob("2024-04/*.html")
    assert "lid rate" in report.read_text(encoding="utf-8")
