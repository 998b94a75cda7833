"""What a workload of a team's own runs, in words, and on its page and its trial's."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient
from tests.data.result_documents import document, training_workload, trial
from tests.fakes.labs import FAST, world, write
from tests.parsed import Parsed
from tests.unit.declarations.workloads.test_container import RATE, container
from tests.unit.declarations.workloads.test_script import changed

from plumbline.archive import open_archive
from plumbline.dashboard.app import create_app
from plumbline.declarations.installation import override_home
from plumbline.results import metric_row
from plumbline.words.programs import declared_numbers, program_text

GIT = {"source": "git", "url": "https://git.example/ml.git", "commit": "0123456789abcdef0123456789abcdef01234567", "path": "train"}


def test_a_script_is_named_by_its_repository_and_commit() -> None:
    assert program_text(changed(files=GIT)).endswith("of https://git.example/ml.git at commit 0123456789ab, folder train")
    assert "of scripts/" in program_text(changed(files={"source": "folder", "path": "trainer"}))
    assert program_text(training_workload()) == "" and declared_numbers(training_workload()) == ()


def test_a_container_by_its_image_and_the_numbers_it_declares() -> None:
    box = container(
        image=f"registry.example/box@sha256:{'ab' * 32}",
        metrics={"box_rate": RATE, "crates": {**RATE, "unit": "1", "better": "none", "field": "box_rate"}},
    )
    assert program_text(box) == "box in registry.example/box@abababababab"
    assert declared_numbers(box) == ("box_rate in 1/s, higher is better", "crates in no unit, informative")


def test_its_page_and_its_trial_show_both(tmp_path: Path) -> None:
    declared, box = world(), container()
    declared.workloads[box.name] = box
    asked = trial(workload=box, where=declared.providers[FAST])  # type: ignore[arg-type]
    rows = (metric_row("command_time", 5.0, 1), metric_row(box.catalogue["box_rate"], 3.0, 1))
    with override_home(tmp_path, write(declared, tmp_path / "config")), TestClient(create_app()) as client:
        with open_archive() as archive:
            archive.record(document(asked, metrics=rows), uri="file:///nowhere")
        for path in ("/workloads/box", f"/trials/{asked.trial_id}"):
            shown = Parsed(client.get(path).text).one("#program").text
            assert "box" in shown and "box_rate in 1/s, higher is better" in shown
        assert client.get("/workloads/box.json").json()["workload"]["numbers"] == ["box_rate in 1/s, higher is better"]
