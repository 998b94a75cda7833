"""How long a newcomer waits for the first scorecard, and what the first archive says: `python perf/first_run.py [--times 3]` clones this repository
into a temporary folder, runs `make run` there, and prints each stage, the parts of each trial, the total, the winners, and what the commands of a
first look print.

Only an idle machine gives the time: the run itself says if others used its cores, and then has no winner.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_STAGES = {
    "starting Airflow": "install",
    "Airflow is ready": "Airflow answers",
    "measuring": "Airflow reads the DAGs",
    "comparing with the baseline": "trials",
    "writing scorecards and report": "review",
    "done": "report and decisions",
}
"""What a line of progress ends."""
_FIRST_LOOK = (("scorecard",), ("decide",), ("findings",), ("status",), ("alerts", "preview", "--all"))
"""What a newcomer reads next, of an archive with one campaign."""


def first_run(folder: Path) -> int:
    """Clone into the folder, run, print; the exit status of `make run`."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_") and name != "VIRTUAL_ENV"}
    began = before = time.monotonic()
    with subprocess.Popen(["make", "run"], cwd=folder, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        said = []
        for line in map(str.rstrip, run.stdout):
            if line in _STAGES:
                now = time.monotonic()
                print(f"{now - before:7.1f} s  {_STAGES[line]}", flush=True)
                before = now
            else:
                said.append(line)
    ended = time.monotonic()
    print(f"{ended - before:7.1f} s  Airflow stops, verdict")
    for name, parts in trials(folder / "var" / "results"):
        print(f"  {name}: {', '.join(f'{part} {seconds:.1f}' for part, seconds in parts if seconds >= 0.5)}")
    if (waited := last_trial_to_report(folder / "var")) is not None:
        print(f"{waited:7.1f} s  from the last trial's end to the report")
    print(f"{ended - began:7.1f} s  in all, exit status {run.returncode}")
    print("\n".join(f"  {line.strip()}" for line in said if line.startswith("this machine was busy") or line.lstrip().startswith("→")))
    first_look(folder, kept)
    return run.returncode


def first_look(folder: Path, environ: Mapping[str, str]) -> None:
    """Print what each command says, with its exit status."""
    for words in _FIRST_LOOK:
        command = [str(folder / ".venv" / "bin" / "plumbline"), *words]
        said = subprocess.run(command, cwd=folder, env={**environ, "COLUMNS": "120"}, capture_output=True, text=True, check=False)
        print(f"\n$ plumbline {' '.join(words)}  (exit status {said.returncode})\n{said.stdout}{said.stderr}".rstrip())


def trials(results: Path) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Of each attempt in order: its name, and the seconds until each of its events."""
    attempts = sorted((moments[0][0], name, moments) for name, moments in map(_moments, results.glob("*/*/attempt-*/collected.json")))
    for _, name, moments in attempts:
        yield name, [(event, (at - before).total_seconds()) for (before, _), (at, event) in pairwise(moments)]


def last_trial_to_report(var: Path) -> float | None:
    """Seconds; None without a report or a trial."""
    ends = [_moments(file)[1][-1][0].timestamp() for file in var.glob("results/*/*/attempt-*/collected.json")]
    reports = [file.stat().st_mtime for file in var.glob("reports/*/report.html")]
    return max(reports) - max(ends) if ends and reports else None


def _moments(file: Path) -> tuple[str, list[tuple[datetime, str]]]:
    document = json.loads(file.read_text())
    events = [*document["timeline"], *document["launch"]["events"]]
    name = f"{document['trial']['trial_id'].partition('.')[2]} {document['validity']['status']}"
    return name, sorted((datetime.fromisoformat(event["utc"].replace("Z", "+00:00")), event["name"]) for event in events)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1, help="runs, each in a clone of its own")
    status = 0
    for number in range(parser.parse_args().times):
        print(f"run {number + 1}")
        with tempfile.TemporaryDirectory(prefix="first-run-") as folder:
            status = max(status, first_run(Path(folder) / "plumbline"))
    return status


if __name__ == "__main__":
    sys.exit(main())
