"""`plumbline workload new` at a terminal, and with flags alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.workflows.test_new_script import LIGHTNING, LOOP, NANOGPT, REPORTER
from typer.testing import CliRunner

from plumbline.cli.app import app
from plumbline.declarations.loader import load_file
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingWorkload

HEAD = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=4)\np.add_argument('--block-size', type=int, default=8)\np.parse_args()\n"
SAVES = "\n    os.makedirs('out', exist_ok=True)\n    pathlib.Path('out/last.pt').write_text('x')"


def answer(config: Path, folder: Path, *answers: str) -> str:
    """What the command prints at a terminal that answers each question in turn."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PLUMBLINE_CONFIG": str(config), "TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(
        [sys.executable, "-m", "plumbline.cli", "workload", "new", "--accelerator", "cpu", "--name", "mine"],
        cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown, left = "", list(answers)
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal closed
                break
            shown += part.decode(errors="replace")
            if left and shown.endswith("]: "):
                os.write(ours, (left.pop(0) + "\n").encode())
        os.close(ours)
    assert (process.returncode, left) == (0, []), shown
    return shown


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def declared(config: Path) -> ScriptWorkload:
    workload = load_file(config / "workloads" / "training" / "mine.yaml", TrainingWorkload, config)
    assert isinstance(workload, ScriptWorkload)
    return workload


COMMAND = f"{sys.executable} train.py"


def test_lines_with_everything_taken_as_understood(tmp_path: Path, folder: Path) -> None:
    (folder / "train.py").write_text(HEAD + LOOP.format(NANOGPT + SAVES))
    shown = answer(tmp_path / "config", folder, f"{COMMAND} --batch-size 16", "", "", "40", "", "10", "--resume")
    assert "reports, loss 3.9 → " in shown and "a report every 2 steps, read as nanogpt" in shown
    assert "128 tokens a step by --batch-size × block-size; is that right?" in shown
    workload = declared(tmp_path / "config")
    task, checkpoints = workload.task, workload.task.checkpoints
    assert (task.command[-1], task.report.format, workload.work.tokens, task.resume_arguments) == ("16", "nanogpt", 256.0, ("--resume",))
    assert checkpoints is not None and (checkpoints.folder, checkpoints.every) == ("out", 5)
    assert workload.fault is not None and workload.fault.at_step == 7


def test_rows_with_another_number_of_tokens(tmp_path: Path, folder: Path) -> None:
    (folder / "train.py").write_text(HEAD + LOOP.format(LIGHTNING))
    answer(tmp_path / "config", folder, COMMAND, ".", "100", "30", "-")
    workload = declared(tmp_path / "config")
    assert (workload.task.report.format, workload.work.tokens, workload.task.checkpoints, workload.fault) == (
        "lightning",
        100.0,
        None,
        None,
    )


def test_the_reporter_without_work(tmp_path: Path, folder: Path) -> None:
    (folder / "train.py").write_text(LOOP.format(REPORTER))
    answer(tmp_path / "config", folder, COMMAND, "", "", "", "-")
    workload = declared(tmp_path / "config")
    assert (workload.task.report.format, workload.work.tokens) == ("reporter", None)


def new(monkeypatch: pytest.MonkeyPatch, config: Path, *words: str) -> tuple[int, str]:
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    done = CliRunner().invoke(app, ["workload", "new", "--yes", "--accelerator", "cpu", "--command", COMMAND, *words])
    return done.exit_code, done.output


def test_what_is_packed_is_shown_first_and_credentials_are_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.py").write_text(LOOP.format(NANOGPT))
    (folder / "sizes.json").write_text("{}")
    size = (folder / "train.py").stat().st_size
    status, shown = new(monkeypatch, tmp_path / "config", "--folder", str(folder))
    assert status == 0
    assert shown.startswith(
        f"each trial carries 2 files, {size + 2:,} bytes:\n  sizes.json  2 bytes\n  train.py  {size:,} bytes\nrunning it here"
    )
    (folder / ".env").write_text("TOKEN=x")
    (folder / "deploy").write_text("-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3BlbnNzaA\n")
    status, shown = new(monkeypatch, tmp_path / "config", "--folder", str(folder), "--replace")
    assert status == 2 and "mine holds credentials" in shown and ".env, deploy (a private key)" in " ".join(shown.split())
    assert "running it here" not in shown and not (tmp_path / "config/scripts/mine/.env").exists()


def test_flags_ask_nothing(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.py").write_text(LOOP.format(NANOGPT))
    commit = "b" * 40
    flags = [
        "--samples",
        "8",
        "--processes",
        "2",
        "--launches-ranks",
        "--git",
        f"https://example.com/x.git@{commit}",
        "--checkpoints",
        "out",
    ]
    assert new(monkeypatch, tmp_path / "config", "--folder", str(folder), *flags)[0] == 0
    workload = declared(tmp_path / "config")
    assert (workload.work.samples, workload.parallelism.processes, workload.task.launches_ranks) == (16.0, 2, True)
    assert workload.task.files is not None and workload.task.files.model_dump()["commit"] == commit


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "No"], "is no workload's name"),
        (["--report", "nanogtp"], "neither a group step nor loss"),
        (["--report", "megatron"], "expected megatron's"),
        (["--git", "https://example.com/x.git@main"], "commit"),
        (["--limit", "long"], "duration"),
    ],
)
def test_what_is_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    (folder / "train.py").write_text(LOOP.format(NANOGPT))
    code, shown = new(monkeypatch, tmp_path / "config", "--folder", str(folder), *words)
    assert code == 2 and message in shown and not (tmp_path / "config").exists()


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = new(monkeypatch, tmp_path / "config", "--folder", str(tmp_path / "mistyped"))
    assert code == 2 and "mistyped" in shown


def test_a_folder_that_is_too_large_is_refused_before_anything_runs(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    (folder / "train.py").write_text(f"open({str(ran)!r}, 'a').write('x')\n" + LOOP.format(NANOGPT))
    (folder / ".venv").mkdir()
    for path in (folder / ".venv/lib.so", folder / "data.bin"):
        path.write_bytes(os.urandom(2 << 20))
    code, shown = new(monkeypatch, tmp_path / "config", "--folder", str(folder))
    assert code == 2 and "data.bin (2,097,152 bytes)" in shown and "--git URL@COMMIT" in shown and "lib.so" not in shown
    assert not ran.exists() and not (tmp_path / "config").exists()
    assert new(monkeypatch, tmp_path / "config", "--folder", str(folder), "--git", f"https://example.com/x.git@{'b' * 40}")[0] == 0
    assert ran.exists()
