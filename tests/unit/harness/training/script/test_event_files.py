"""Event files as torch's own writer writes them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from plumbline.declarations.workloads.script import TensorBoardReport
from plumbline.harness.training.script import event_files as module
from plumbline.harness.training.script.report_files import report_files
from plumbline.harness.training.script.reports import Reported

REPORT = TensorBoardReport(format="tensorboard", folder="runs", loss="train/loss|loss", tokens="tokens")


@pytest.fixture(autouse=True)
def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


def test_scalars_of_a_step_are_one_report_with_its_moment(tmp_path: Path) -> None:
    old = SummaryWriter(str(tmp_path / "runs"))
    old.add_scalar("train/loss", 9.0, 0)
    old.close()
    files = report_files(REPORT, tmp_path)
    assert files is not None and files.poll() == []
    before = time.monotonic_ns()
    writer = SummaryWriter(str(tmp_path / "runs" / "second"))
    for step, loss in enumerate((3.5, 3.25)):
        writer.add_scalar("train/loss", loss, step)
        writer.add_scalar("lr", 0.1, step)
        writer.add_scalar("tokens", 4096, step)
    writer.add_scalar("train/loss", 3.0, 2)
    writer.flush()
    first = files.poll()
    assert [(r.step, r.loss, r.tokens) for r in first] == [(0, 3.5, 4096.0), (1, 3.25, 4096.0)]
    assert all(r.ended is not None and before - 10**6 < r.ended < time.monotonic_ns() + 10**6 for r in first)
    assert files.poll() == []
    writer.add_scalar("train/loss", 2.5, 3)
    writer.close()
    assert [(r.step, r.loss, r.tokens) for r in files.poll()] == [(2, 3.0, None)]


def test_a_file_that_is_cut_goes_on_when_its_rest_comes(tmp_path: Path) -> None:
    files = report_files(TensorBoardReport(format="tensorboard", folder="runs", loss="loss"), tmp_path)
    assert files is not None
    writer = SummaryWriter(str(tmp_path / "written"))
    for step in range(3):
        writer.add_scalar("loss", step, step)
    writer.close()
    (written,) = (tmp_path / "written").iterdir()
    content = written.read_bytes()
    growing = tmp_path / "runs" / written.name
    growing.parent.mkdir()
    growing.write_bytes(content[:-5])
    assert [r.step for r in files.poll()] == [0, 1]
    with growing.open("ab") as file:
        file.write(content[-5:])
    assert [(r.step, r.loss) for r in files.poll()] == [(2, 2.0)]
    assert isinstance(files.poll(), list) and Reported(2) not in files.poll()
