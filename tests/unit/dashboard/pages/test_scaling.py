"""The page of scaling: time to scale out first, quickest first, why there is none, and what is not measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.data.result_documents import document, inference_metrics, inference_workload, trial
from tests.fakes.labs import CHEAP, FAST, world, write
from tests.parsed import Parsed
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home
from plumbline.results import Reason, Validity, metric_row, share_row

PHASES = [
    {"name": "warmup", "arrivals": {"poisson": {"rate": "4/s"}}, "duration": "2s"},
    {"name": "steady", "arrivals": {"poisson": {"rate": "8/s"}}, "duration": "30s"},
    {"name": "scale_out", "rates": ["2/s", "8/s"], "hold": "3min", "down": "3min"},
]
LATE = "the SLO did not hold again within 180s at 8/s (1440 of 1440 requests missed it)"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home: Path = tmp_path_factory.mktemp("home")
    declared = world()
    limits = ["time_to_scale_out <= 60s in scale_out"]
    spec = inference_workload(name="chat-steps", phases=PHASES, acceptance=limits)
    declared.workloads["chat-steps"] = spec
    with override_home(home, write(declared, home / "config")):
        with open_archive() as archive:
            for name, seconds in ((FAST, 48.0), (CHEAP, None)):
                asked = trial(workload=spec, where=declared.providers[name])
                missed = share_row("slo_miss_ratio", 400, 1440, phase="scale_out")
                took = metric_row("time_to_scale_out", seconds, 1440, phase="scale_out", reason=None if seconds else LATE)
                reasons = () if seconds else (Reason(code="no_scale_out", detail=LATE),)
                validity = Validity(status="valid" if seconds else "degraded", reasons=reasons)
                archive.record(document(asked, metrics=(*inference_metrics(), took, missed), validity=validity), uri="file:///nowhere")
        with TestClient(create_app()) as opened:
            yield opened


def test_time_to_scale_out_is_first_and_its_absence_has_a_reason(client: TestClient) -> None:
    page, data = Parsed(client.get("/scaling").text), client.get("/scaling.json").json()
    (view,) = data["workloads"]
    assert view["headings"][0] == "time to scale out"
    quick, late = view["lines"]
    assert (quick["provider"], quick["figures"][0]["number"]["value"], quick["why"]) == (FAST, 48.0, "")
    assert (late["provider"], late["figures"][0]["number"], late["why"]) == (CHEAP, None, LATE)
    assert [line["verdicts"][0]["outcome"] for line in view["lines"]] == ["pass", "insufficient"]
    assert page.one(".answer").text == f"Back within the SLO after {FAST} 48.0 s; not back on {CHEAP}."
    assert "plumbline scaling chat-steps" in page.text and "chat-test" in page.one("#unscaled").text and "chat-test" in data["unscaled"]
    assert ("page", "/scaling") in {(place["kind"], place["path"]) for place in client.get("/jump").json()}


def test_the_command_has_the_rows_of_the_page(client: TestClient) -> None:
    said = CliRunner().invoke(app, ["scaling", "--json"])
    assert json.loads(said.stdout) == client.get("/scaling.json").json()
    shown = " ".join(CliRunner().invoke(app, ["scaling", "chat-steps"], env={"COLUMNS": "200"}).stdout.split())
    assert f"back within the SLO after {FAST} 48.0 s; not back on {CHEAP}" in shown and "48.0 s" in shown and "pass" in shown
    assert f"{CHEAP}: The SLO did not hold again" in shown and "chat-test" not in shown
    unknown = CliRunner().invoke(app, ["scaling", "chat-step"])
    assert unknown.exit_code == 2 and "chat-steps" in unknown.stderr
    other = CliRunner().invoke(app, ["scaling", "chat-test"])
    assert other.exit_code == 0 and "chat-test steps no load up" in " ".join(other.stdout.split())


def test_without_the_phase_the_page_names_its_declaration(tmp_path: Path) -> None:
    with override_home(tmp_path, write(world(), tmp_path / "config")), open_archive(), TestClient(create_app()) as empty:
        assert "{name: scale_out, rates: [2/s, 8/s]" in Parsed(empty.get("/scaling").text).one("#no-scaling").text
        assert empty.get("/scaling.json").json()["workloads"] == []
