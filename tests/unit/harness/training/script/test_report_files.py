"""Files that a script writes while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.declarations.workloads.script import CsvReport, JsonLinesReport, KnownReport, ReporterReport
from plumbline.harness.training.script import report_files as module
from plumbline.harness.training.script.report_files import LineFiles, report_files
from plumbline.harness.training.script.reports import Reported


@pytest.fixture(autouse=True)
def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


def add(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def followed(folder: Path) -> LineFiles:
    files = report_files(KnownReport(format="lightning"), folder)
    assert isinstance(files, LineFiles)
    return files


def test_output_has_no_files(tmp_path: Path) -> None:
    assert report_files(ReporterReport(format="reporter"), tmp_path) is None
    assert report_files(JsonLinesReport(format="jsonl", loss="loss"), tmp_path) is None


def test_rows_as_they_are_added(tmp_path: Path) -> None:
    files, path = followed(tmp_path), tmp_path / "logs/version_0/metrics.csv"
    assert files.poll() == []
    add(path, "epoch,step,train_loss\n0,0,3.")
    assert files.poll() == []
    add(path, "5\n0,1,3.25\n")
    assert files.poll() == [Reported(0, 3.5), Reported(1, 3.25)]
    assert files.poll() == []


def test_what_was_there_before_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "logs/version_0/metrics.csv"
    add(path, "epoch,step,train_loss\n0,0,3.5\n")
    files = followed(tmp_path)
    assert files.poll() == []
    add(path, "0,1,3.25\n")
    assert files.poll() == [Reported(1, 3.25)]
    add(tmp_path / "logs/version_1/metrics.csv", "step,train_loss\n2,3\n")
    assert files.poll() == [Reported(2, 3.0)]


def test_a_column_that_is_added_repeats_no_row(tmp_path: Path) -> None:
    files, path = followed(tmp_path), tmp_path / "metrics.csv"
    add(path, "epoch,step,train_loss\n0,0,3.5\n")
    assert files.poll() == [Reported(0, 3.5)]
    path.write_text("")
    assert files.poll() == []
    path.write_text("epoch,step,train_loss,val_loss\n0,0,3.5,\n0,0,,4.5\n0,1,3.25,\n")
    assert files.poll() == [Reported(1, 3.25)]


def test_a_file_that_is_written_again_begins(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    add(path, "epoch,step,train_loss\n0,0,3.5\n0,1,3.5\n")
    files = followed(tmp_path)
    path.write_text("epoch,step,train_loss\n0,0,3.5\n")
    assert files.poll() == [Reported(0, 3.5)]
    (tmp_path / "new").write_text("epoch,step,train_loss\n0,0,1.5\n0,1,2.5\n")
    (tmp_path / "new").replace(path)
    assert files.poll() == [Reported(0, 1.5), Reported(1, 2.5)]


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    report = CsvReport(format="csv", file="log.csv", loss="loss")
    files = report_files(report, tmp_path)
    assert files is not None
    add(tmp_path / "log.csv", "loss\n1\n")
    assert files.poll() == [Reported(loss=1.0)]
    (tmp_path / "log.csv").unlink()
    assert files.poll() == []


def test_a_script_that_ended_before_files_were_looked_for_again_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    files = followed(tmp_path)
    assert files.poll() == []
    add(tmp_path / "logs/version_0/metrics.csv", "step,train_loss\n0,3.5\n")
    assert files.poll() == []
    assert files.poll(ended=True) == [Reported(0, 3.5)]
