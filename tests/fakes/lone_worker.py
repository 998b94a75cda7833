"""A worker in a process of its own, with a home of its own: it does the steps of a benchmark's tasks, one a line, as Airflow's workers do.

A line is JSON, {"step": name of a function here, "with": its arguments}; the answer is one line, {"done": result} or {"failed": text}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class LoneWorker:
    """Starts the process below `home`; `settings`: its further environment. The folder `home` is all that it may write besides the store and archive."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        (home / "tmp").mkdir(parents=True)
        (home / "cwd").mkdir()
        env = {**os.environ, **settings, "PLUMBLINE_HOME": str(home / "plumbline"), "HOME": str(home), "TMPDIR": str(home / "tmp")}
        env["PYTHONPATH"] = f"{ROOT}:{env.get('PYTHONPATH', '')}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.lone_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd=home / "cwd",
        )

    def do(self, step: str, **arguments: Any) -> Any:
        """The result of a step; AssertionError with its error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"step": step, "with": arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"failed": "the worker ended"}')
        assert "failed" not in answer, answer["failed"]
        return answer["done"]

    def end(self) -> None:
        """End the process; its home stays."""
        self._process.communicate(timeout=60)

    def kill(self) -> None:
        """Kill the process, as a machine that loses its power does."""
        self._process.kill()
        self._process.wait(timeout=60)


def files_below(folder: Path) -> set[str]:
    """What a worker left, by path; without what its interpreter caches."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def plan(provider: str, lane: str, campaign: str, workloads: list[str], repeats: int) -> Any:
    from plumbline.launch.plan import RunRequest
    from plumbline.workflows.plan import TRIAL_GROUPS
    from plumbline.workflows.plan_trials import plan_trials

    return plan_trials(
        provider, TRIAL_GROUPS[lane], RunRequest(campaign, "without a common folder", workloads=tuple(workloads), repeats=repeats)
    )


def run(spec: dict[str, str]) -> Any:
    from plumbline.workflows.run import run_trial

    return run_trial(spec)


def collect(specs: list[dict[str, str]]) -> None:
    from plumbline.workflows.collect import collect_group

    collect_group(specs)


def validate(provider: str, lane: str, specs: list[dict[str, str]]) -> Any:
    from plumbline.workflows.validate import validate_group

    return validate_group(provider, lane, specs)


def record(checked: list[dict[str, Any]]) -> Any:
    from plumbline.workflows.record import record_group

    outcome = record_group(checked)
    outcome.require_all()
    return outcome.done


def review(campaign: str) -> int:
    from plumbline.workflows.review import review_campaign

    return len(review_campaign(campaign))


def report(campaign: str) -> str:
    from plumbline.workflows.report import write_report

    return write_report(campaign, ("csv",))


def hold(name: str) -> bool:
    """Take an advisory lock and keep it until this process ends; whether it was free."""
    from plumbline.archive import open_archive

    lock = open_archive().alone(name, 0.0)
    _HELD.append(lock)
    return lock.__enter__()


_HELD: list[Any] = []
_STEPS = {step.__name__: step for step in (plan, run, collect, validate, record, review, report, hold)}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a step prints is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"done": _STEPS[asked["step"]](**asked["with"])}
        except BaseException as error:  # noqa: BLE001 (whatever it is, the test says it)
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
