"""A training script under Plumbline beside a stopwatch around the same command, in one run: ratios of wall time and of step time.

python perf/script_overhead.py [--rounds 5] [--folder docs/samples/trainer] [--command 'python train.py --steps {steps}'] [--steps 40 240]
    [--format regex|nanogpt|…] [--pattern '^step (?P<step>\\d+)']

Wall time: of the process that starts the command and reads its reports, over the command alone. Step time: the mean of the steps that it wrote down
after the fewer of both numbers of steps, over the stopwatch's difference between many and few steps. Each round runs all three, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from plumbline.harness import engine_python
from plumbline.harness.child_process import ChildProcess
from plumbline.harness.training.worker_protocol import LogTail, ScriptSpec

ROOT = Path(__file__).resolve().parents[1]


def alone(command: list[str], folder: Path) -> float:
    """Seconds of the command by itself."""
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    began = time.monotonic()
    subprocess.run(command, cwd=folder, env=variables, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def measured(command: list[str], folder: Path, report: dict[str, Any], steps: int, few: int) -> tuple[float, float]:
    """Seconds of the command under the harness, and the mean seconds of a step."""
    spec = ScriptSpec(
        command=tuple(command), folder=str(folder), environment={}, report=report, base=0, checkpoint_every=None, launches_ranks=False,
        private=False, device="cpu", threads=1, until=steps, resume=False, checkpoint_folder="", hold=None, closing=False,
        log=str(folder / "steps.jsonl"), stepless=True,
    )  # fmt: skip
    spec.write(folder / "spec.json")
    began = time.monotonic()
    run = [engine_python.executable(), "-m", spec.module, str(folder / "spec.json"), str(os.getpid())]
    with ChildProcess(run, engine_python.environment(), output=subprocess.DEVNULL) as process:
        status = process.wait()
    if status:
        raise RuntimeError(f"the command ended with exit status {status} under the harness")
    took = time.monotonic() - began
    ends = [line["ns"] / 1e9 for line in LogTail(Path(spec.log)).new() if line["event"] == "step"]
    return took, (ends[-1] - ends[few - 1]) / (len(ends) - few)


def main() -> int:
    parser = argparse.ArgumentParser(description="a training script under Plumbline beside a stopwatch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "samples" / "trainer")
    parser.add_argument("--command", default="python train.py --checkpoint-every 100000 --steps {steps}")
    parser.add_argument("--steps", type=int, nargs=2, default=(40, 240), metavar=("FEW", "MANY"))
    parser.add_argument("--format", default="regex")
    parser.add_argument("--pattern", default=r"^step (?P<step>\d+) loss (?P<loss>[0-9.]+)")
    asked = parser.parse_args()
    few, many = asked.steps
    report = {"format": asked.format, **({"pattern": asked.pattern} if asked.format == "regex" else {})}
    walls, steps = [], []
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as place:
            commands = [shlex.split(asked.command.format(steps=count)) for count in (few, many)]
            folders = [Path(shutil.copytree(asked.folder, Path(place, name))) for name in ("few", "many", "measured")]
            if number % 2:  # neither is always first
                wall, step = measured(commands[1], folders[2], report, many, few)
            short, long = alone(commands[0], folders[0]), alone(commands[1], folders[1])
            if not number % 2:
                wall, step = measured(commands[1], folders[2], report, many, few)
        walls.append(wall / long)
        steps.append(step / ((long - short) / (many - few)))
        print(
            json.dumps({"alone_s": [round(short, 3), round(long, 3)], "measured_s": round(wall, 3), "step_s": round(step, 6)}), flush=True
        )
    for name, ratios in (("wall time", walls), ("step time", steps)):
        print(f"{name}, measured over the command alone: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
