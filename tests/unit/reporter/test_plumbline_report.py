"""The one file that a script may carry: what it writes, and that it does nothing where no reader is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from plumbline.declarations.workloads.script import ReporterReport
from plumbline.harness.training.script.reports import reader_of
from plumbline.reporter import plumbline_report

FILE = Path(plumbline_report.__file__)


def run(script: str, target: str | None, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(FILE.parent), "RANK": "1"}
    if target is not None:
        environment["PLUMBLINE_REPORT"] = target
    return subprocess.run(
        [sys.executable, "-c", "import plumbline_report as report\n" + script],
        env=environment,
        text=True,
        capture_output=True,
        check=False,
        **options,
    )


def events(script: str, folder: Path) -> list[dict[str, Any]]:
    target = folder / "events"
    target.touch()
    done = run(script, str(target), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_steps_with_their_work_and_wait(tmp_path: Path) -> None:
    found = events(
        "import time\n"
        "def loader():\n"
        "    for n in range(2):\n"
        "        time.sleep(0.05)\n"
        "        yield n\n"
        "for batch in report.batches(loader()):\n"
        "    with report.step(tokens=64) as step:\n"
        "        step.loss = 3.5 - batch\n"
        "with report.step(7, samples=2): pass\n"
        "try:\n"
        "    with report.step(): 1 / 0\n"
        "except ZeroDivisionError: pass\n",
        tmp_path,
    )
    assert [(e["event"], e["step"], e["rank"], e.get("loss"), e.get("tokens"), e.get("samples")) for e in found] == [
        ("step", 0, 1, 3.5, 64, None),
        ("step", 1, 1, 2.5, 64, None),
        ("step", 7, 1, None, None, 2),
    ]
    assert all(0.04e9 < e["data_wait"] * 1e9 <= e["ended"] - e["began"] for e in found[:2]) and "data_wait" not in found[2]
    read = reader_of(ReporterReport(format="reporter")).read
    assert [r.step for e in found if (r := read(json.dumps(e))) is not None] == [0, 1, 7]


def test_checkpoints_loads_and_scores(tmp_path: Path) -> None:
    found = events(
        "import pathlib, time\n"
        "report.loaded(20, time.monotonic_ns())\n"
        "with report.step(): pass\n"
        "with report.checkpoint('out'):\n"
        "    pathlib.Path('out/deep').mkdir(parents=True)\n"
        "    pathlib.Path('out/deep/weights').write_bytes(b'12345')\n"
        "report.checkpoint_saved(pathlib.Path('out/deep/weights'))\n"
        "class Scalar:\n"
        "    def __float__(self): return 0.5\n"
        "report.evaluated(accuracy=Scalar(), note=object)\n",
        tmp_path,
    )
    loaded, step, saved, seen, scored = found
    assert (loaded["event"], loaded["step"], step["step"]) == ("loaded", 20, 20) and loaded["began"] <= loaded["ended"]
    assert (saved["event"], saved["step"], saved["path"], saved["bytes"]) == ("checkpoint", 20, "out", 5) and saved["began"] <= saved[
        "ended"
    ]
    assert (seen["path"], seen["bytes"], "began" in seen) == ("out/deep/weights", 5, False)
    assert scored["scores"] == {"accuracy": 0.5, "note": "<class 'object'>"}


def test_a_descriptor_and_a_forked_process(tmp_path: Path) -> None:
    read, write = os.pipe()
    script = "import os\nif os.fork() == 0:\n    with report.step(5): pass\n    os._exit(0)\nos.wait()\nwith report.step(6): pass\n"
    assert run(script, str(write), pass_fds=[write]).returncode == 0
    os.close(write)
    with os.fdopen(read) as lines:
        assert [json.loads(line)["step"] for line in lines] == [5, 6]


def test_nothing_happens_where_nothing_reads(tmp_path: Path) -> None:
    script = "import os\nfor _ in range(2):\n    with report.step(loss=1) as s: s.tokens = 3\n    report.checkpoint_saved('x')\n    report.evaluated(a=1)\nprint('trained')"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for target in (None, "", str(tmp_path / "missing" / "file"), "57", str(pipe)):
        done = run(script, target, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_reader_that_goes_away_ends_no_training(tmp_path: Path) -> None:
    read, write = os.pipe()
    script = f"with report.step(): pass\nimport os\nos.close({read})\nfor _ in range(3):\n    with report.step(): pass\nprint('trained')"
    with subprocess.Popen(
        [sys.executable, "-c", "import plumbline_report as report\n" + script],
        env={"PYTHONPATH": str(FILE.parent), "PLUMBLINE_REPORT": str(write)},
        pass_fds=[read, write],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(read)
        os.close(write)
        assert process.stdout is not None and process.stdout.read() == "trained\n"
    assert process.returncode == 0
