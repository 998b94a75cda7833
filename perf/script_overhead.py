"""A training script under Plumbline beside a stopwatch around the same command, in one run: ratios of wall time and of step time.

python perf/script_overhead.py [--rounds 6] [--folder docs/samples/trainer] [--command 'python train.py --steps {steps}'] [--steps 400]
    [--format regex|nanogpt|…] [--pattern '^step (?P<step>\\d+)']

Both run at once, each on a core of its own, and change cores each round: what slows the machine slows both. Wall time: of the process that starts
the command and reads its reports, over the command alone. Step time: of the ends that it wrote down, over those of the printed lines, the first
tenth apart; where the script prints its own times, also over those of the same steps. The geometric mean of an even number of rounds takes out what one core is faster than the other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from plumbline.harness import engine_python
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.training.worker_protocol import LogTail, ScriptSpec

ROOT = Path(__file__).resolve().parents[1]


def alone(command: list[str], folder: Path, pattern: re.Pattern[str], core: int) -> tuple[float, list[float]]:
    """Seconds of the command by itself, and when each line of a step came, read by a stopwatch of a few lines."""
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    began = time.monotonic()
    run = ["taskset", "-c", str(core), *command]
    with subprocess.Popen(run, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ends = [time.monotonic() for line in process.stdout if pattern.search(line)]
    if process.returncode:
        raise RuntimeError(f"the command ended with exit status {process.returncode}")
    return time.monotonic() - began, ends


class Measured(NamedTuple):
    """Seconds of the command under the harness and of CPU time of the process that reads its reports; ends of the steps that it wrote down, and
    the script's own seconds of each, where it prints them."""

    wall: float
    reading: float
    ends: list[float]
    printed: list[float | None]


def measured(command: list[str], folder: Path, report: dict[str, Any], steps: int, core: int) -> Measured:
    """Run the command under the harness."""
    spec = ScriptSpec(
        command=tuple(command), folder=str(folder), environment={}, report=report, base=0, checkpoint_every=None, launches_ranks=False,
        private=False, device="cpu", threads=1, until=steps, resume=False, checkpoint_folder="", hold=None, closing=False,
        log=str(folder / "steps.jsonl"), stepless=True,
    )  # fmt: skip
    spec.write(folder / "spec.json")
    began, reading = time.monotonic(), 0.0
    run = ["taskset", "-c", str(core), engine_python.executable(), "-m", spec.module, str(folder / "spec.json"), str(os.getpid())]
    with ChildProcess(run, engine_python.environment(), output=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(psutil.Error):
                times = psutil.Process(process.pid).cpu_times()
                reading = max(reading, times.user + times.system)
            time.sleep(0.2)  # looking takes time from the command that runs alone
    if process.returncode:
        raise RuntimeError(f"the command ended with exit status {process.returncode} under the harness")
    lines = [line for line in LogTail(Path(spec.log)).new() if line["event"] == "step"]
    return Measured(time.monotonic() - began, reading, [line["ns"] / 1e9 for line in lines], [line["other_s"] for line in lines])


def main() -> int:
    parser = argparse.ArgumentParser(description="a training script under Plumbline beside a stopwatch")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "samples" / "trainer")
    parser.add_argument("--command", default="python train.py --checkpoint-every 100000 --steps {steps}")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--format", default="regex")
    parser.add_argument("--pattern", default=r"^step (?P<step>\d+) loss (?P<loss>[0-9.]+)")
    asked = parser.parse_args()
    report = {"format": asked.format, **({"pattern": asked.pattern} if asked.format == "regex" else {})}
    command, pattern = shlex.split(asked.command.format(steps=asked.steps)), re.compile(asked.pattern)
    walls: list[float] = []
    steps: list[float] = []
    shares: list[float] = []
    printed: list[float] = []
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(1) as beside:
            folders = [Path(shutil.copytree(asked.folder, Path(place, name))) for name in ("alone", "measured")]
            watched = beside.submit(alone, command, folders[0], pattern, number % 2)
            run = measured(command, folders[1], report, asked.steps, 1 - number % 2)
            alone_wall, alone_ends = watched.result()
        walls.append(run.wall / alone_wall)
        shares.append(run.reading / run.wall)
        if (tenth := run.printed[len(run.printed) // 10 :]) and None not in tenth:
            printed.append((run.ends[-1] - run.ends[len(run.ends) // 10 - 1]) / sum(filter(None, tenth)))
        spans = [(times[-1] - times[len(times) // 10]) / (len(times) - len(times) // 10 - 1) for times in (run.ends, alone_ends)]
        steps.append(spans[0] / spans[1])
        seen = {"alone_s": alone_wall, "measured_s": run.wall, "reading_cpu_s": run.reading, "alone_step_s": spans[1], "step_s": spans[0]}
        print(json.dumps({name: round(seconds, 6) for name, seconds in seen.items()}), flush=True)
    names = (
        "wall time, measured over alone",
        "step time, measured over alone",
        "CPU time of reading, over wall time",
        "step time, measured over printed",
    )
    for name, ratios in zip(names, (walls, steps, shares, printed), strict=True):
        if ratios:
            print(f"{name}: {statistics.geometric_mean(ratios):.4f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
