"""Declare a team's training script: run it for some steps, recognise how it reports them, and write the workload."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from plumbline.declarations import DeclarationError, installation_paths
from plumbline.declarations.loader import load_file
from plumbline.declarations.problems import display_path
from plumbline.declarations.workloads.script import Report
from plumbline.declarations.workloads.script_files import copy_packed
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.formats.reading.training_log import TRAINING_LOGS
from plumbline.harness.training.job.tried import SPEC_FILE, Ended, log_of, output_of
from plumbline.harness.training.script.reports import Reported
from plumbline.harness.training.worker_protocol import ScriptSpec
from plumbline.launch.local.process import ProcessLimits, TrialOutput, supervised, trial_environment
from plumbline.workflows.script_recognition import Recognised, lines_of, recognise

WANTED = 10
_READ_BYTES = 1 << 22
_LOOK_S, _GRACE_S = 0.5, 1.0
_LAST_LINES, _SHOWN = 20, 300
_BATCH = r"(global|micro|local|train|per_device|_)*(batch|batch_?size|bs)"
_LENGTH = r"block_size|(max_)?seq(uence)?_?len(gth)?|context(_len(gth)?)?|max_length|n_ctx"
_ACCUMULATION = r"(grad(ient)?_)?accum(ulation|ulate)?(_steps)?|accumulate_grad_batches"
_BETWEEN = r"(checkpoint|ckpt|save|saving)_?(every|interval|steps|freq|frequency|period)"
_LOGGED = r"(log|logging|print|report)_?(every|interval|steps|freq|frequency)(_n_steps)?"
_STEPS = r"((max|num|n|total|train|training)_?)*(steps|iters|iterations)"
Settings = Mapping[str, tuple[str, int]]
_State = dict[Path, tuple[int, int, int]]
"""Of each file inode, bytes, and when it was last written, ns: read again only once these change."""


@dataclass(frozen=True)
class Understood:
    """How a script reports, and what it reported. `every`: its steps from one report to the next; `checkpoints`: the folder it wrote some to.

    `counted`: what `every` rests on where no report has a number, in words; empty where reports have one."""

    report: Report
    reports: Sequence[Reported]
    every: int
    checkpoints: str | None
    counted: str = ""

    def with_every(self, every: int) -> Understood:
        """The same reports, each of so many steps."""
        return replace(self, every=every, report=self.report.model_copy(update={"every": every}))


def understand(command: Sequence[str], folder: Path, report: Report | None, limit_s: float, ranks: int = 1) -> Understood:
    """Run the command, as `ranks` processes, in a copy of the folder until it has reported WANTED times, one ends, or `limit_s` is over: by a
    trial's own worker, with its environment and home. Nothing of it outlives this process.

    ValueError with the last lines of its output if it reports nothing that `report` (None: any format) reads."""
    with tempfile.TemporaryDirectory(prefix="plumbline-script-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        copy, events = scratch / "files", scratch / "events"
        copy_packed(folder, copy, bounded=False)
        before = {path for path in copy.rglob("*") if path.is_file()}
        events.touch()
        found: Recognised | str = ""
        new: list[Path] = []
        until: float | None = None
        with _tried(command, scratch, copy, events, ranks) as attempt:
            ended, read = False, _State()
            while not ended and (isinstance(found, str) or len(found.reports) < WANTED) and (until is None or time.monotonic() < until):
                time.sleep(_LOOK_S)
                ended = not attempt.running()
                if until is None and log_of(scratch).exists() and '"launched"' in log_of(scratch).read_text(errors="replace"):
                    until = time.monotonic() + limit_s
                new = sorted(path for path in copy.rglob("*") if path.is_file() and path not in before)
                if (state := _state_of([output_of(scratch), events, *new])) != read:  # every format is tried on all of it
                    found, read = recognise(_printed(scratch), lines_of(events), copy, new, report), state
        if isinstance(found, str):
            how = attempt.ended() if ended else Ended(f"ran for {limit_s:g} s (--limit)")
            if not how.started:
                raise ValueError(how.how)
            last = "\n".join(line[:_SHOWN] for line in _printed(scratch)[-_LAST_LINES:])
            expected = f"{report.format}'s" if report is not None else "one of a known format, or with a step or loss and its number"
            why = f" ({found})" if found else ""
            raise ValueError(
                f"the command {how.how} and reported no step{why}; expected {expected}, by output, file or plumbline_report; its last lines:\n{last}"
            )
        return _understood(found, settings_of(command, folder), _checkpoints(copy, new))


def _state_of(paths: Sequence[Path]) -> _State:
    """Equal as long as none of the files was written to; one that is gone is left out."""
    found = {}
    for path in paths:
        with suppress(OSError):
            stat = path.stat()
            found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found


def _printed(scratch: Path) -> list[str]:
    """Lines of the command's output; the worker puts the cause of a failure behind it."""
    path = output_of(scratch)
    if not path.exists():
        return []
    lines = lines_of(path)
    return lines[:-1] if lines and lines[-1].startswith("\0") else lines


@dataclass(frozen=True)
class _Attempt:
    """A script that is tried. `running`: whether it still is; `ended`: how it ended, once its processes are gone."""

    running: Callable[[], bool]
    ended: Callable[[], Ended]


@contextmanager
def _tried(command: Sequence[str], scratch: Path, copy: Path, events: Path, ranks: int) -> Iterator[_Attempt]:
    spec = ScriptSpec(
        command=tuple(command),
        folder=str(copy),
        environment={},
        report={"format": "reporter"},
        launches_ranks=False,
        private=False,
        stepless=True,
        events=str(events),
        home=str(scratch / "home"),
        device="cpu",
        until=1 << 62,
        resume=False,
        log=str(log_of(scratch)),
    )
    spec.write(scratch / SPEC_FILE)
    (scratch / "tmp").mkdir()
    token = secrets.token_hex(16)
    with (scratch / "launch.log").open("wb") as log, Path(os.devnull).open("rb") as hold:
        output = TrialOutput(log, lambda _: False)
        with supervised(
            [sys.executable, "-m", "plumbline.harness.training.job.tried", str(scratch), str(ranks)],
            cpus=sorted(os.sched_getaffinity(0)),
            environment=trial_environment(os.environ, "file:///", token, scratch / "tmp"),
            token=token,
            folder=scratch,
            hold=hold.fileno(),
            limits=ProcessLimits(timeout_s=math.inf, memory_bytes=math.inf, grace_s=_GRACE_S),
            output=output,
        ) as process:
            yield _Attempt(lambda: process.reaper.alive, lambda: _read_ended(output.tail))


def _read_ended(tail: str) -> Ended:
    try:
        return Ended(**from_json(tail.strip().splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        return Ended(f"could not be run here: {tail.strip() or 'its worker wrote nothing'}", started=False)


def _understood(found: Recognised, settings: Settings, checkpoints: str | None) -> Understood:
    """Where reports have no number, a setting says how many steps are between two, or a progress bar; else each is taken for one step."""
    if not found.counted:
        return Understood(found.report, found.reports, found.every, checkpoints)
    logged = _setting(settings, _LOGGED)
    every, why = (
        (logged[1], f"by {logged[0]}")
        if logged is not None
        else (found.bar_every, "by the progress bar beside them")
        if found.bar_every is not None
        else (1, "a guess: nothing says how many steps are between two")
    )
    return Understood(found.report, found.reports, every, checkpoints, why).with_every(every)


def _checkpoints(folder: Path, new: list[Path]) -> str | None:
    files = [path.relative_to(folder) for path in new if path.suffix in (".pt", ".pth", ".ckpt", ".safetensors", ".distcp")]
    return files[0].parts[0] if files and len(files[0].parts) > 1 else None


def settings_of(command: Sequence[str], folder: Path) -> Settings:
    """Whole numbers by plain name, each as it is written: the command's arguments, then lines NAME = NUMBER and argparse's defaults in the files that
    the command names, the last one first."""
    given = [(name, shown, number) for shown, name, number in re.findall(r"((?:--)?([A-Za-z][\w.-]*))[ =](\d+)\b", " ".join(command))]
    for word in reversed(command):
        path = folder / word.rpartition("=")[2]
        source = path.read_text(encoding="utf-8", errors="replace")[:_READ_BYTES] if path.is_file() else ""
        defaults = re.findall(r"""["']--([\w-]+)["'][^\n]*?\bdefault=(\d+)""", source)
        assigned = re.findall(r"""^[ \t"']*([A-Za-z_]\w*)["']?[ \t]*[:=][ \t]*(\d[\d_]*(?:[ \t]*\*[ \t]*\d+)*)""", source, re.M)
        given += [(name, name, number) for name, number in [*defaults, *assigned]]
    plain = [(name.rpartition(".")[2].replace("-", "_").lower(), shown, number) for name, shown, number in given]
    return {name: (shown, prod(map(int, number.split("*")))) for name, shown, number in reversed(plain)}


def _setting(settings: Settings, role: str) -> tuple[str, int] | None:
    return next((setting for name, setting in settings.items() if re.fullmatch(role, name) and setting[1] > 0), None)


def steps_of(settings: Settings) -> tuple[int | None, int | None]:
    """After how many of its steps the script ends, and how many are between two checkpoints, where settings say so."""
    ends, between = _setting(settings, _STEPS), _setting(settings, _BETWEEN)
    return ends and ends[1], between and between[1]


def work_of_step(settings: Settings, processes: int) -> tuple[str, int, str] | None:
    """Unit (tokens or samples), number in one of the script's steps, and the product that it is, by the settings' names; None without a batch."""
    batch, length, accumulation = (_setting(settings, role) for role in (_BATCH, _LENGTH, _ACCUMULATION))
    if batch is None:
        return None
    whole = "global" in batch[0]
    each = [] if whole else [accumulation, ("processes", processes) if processes > 1 else None]
    factors = [factor for factor in (batch, length, *each) if factor is not None]
    return "samples" if length is None else "tokens", prod(number for _, number in factors), " × ".join(shown for shown, _ in factors)


def report_named(text: str) -> Report:
    """A format as an option names it: one of TRAINING_LOGS, reporter, or a regular expression. ValueError."""
    known = text == "reporter" or text in TRAINING_LOGS
    try:
        adapter: TypeAdapter[Report] = TypeAdapter(Report)
        return adapter.validate_python({"format": text} if known else {"format": "regex", "pattern": text})
    except ValidationError as error:
        raise ValueError(
            f"{error.errors()[0]['msg'].removeprefix('Value error, ')} (or one of reporter, {', '.join(TRAINING_LOGS)})"
        ) from None


def write_script(declared: dict[str, Any], folder: Path, *, overwrite: bool) -> Path:
    """`workloads/training/<name>.yaml`, and a folder's files as `scripts/<name>`, once the loader has read both. ValueError; nothing is left then."""
    name, root = declared["name"], installation_paths().config
    path, scripts = root / "workloads" / "training" / f"{name}.yaml", root / "scripts" / name
    with tempfile.TemporaryDirectory(prefix="plumbline-script-") as scratch:
        tried = Path(scratch) / path.name
        tried.write_text(
            yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=140, default_flow_style=None), encoding="utf-8"
        )
        own = declared["task"]["files"]["source"] == "folder"
        if own:
            copy_packed(folder, Path(scratch) / "scripts" / name)
        try:
            load_file(tried, TrainingWorkload, Path(scratch))
        except DeclarationError as error:
            raise DeclarationError([replace(each, file=display_path(path)) for each in error.problems]) from None
        for target in [path, *([scripts] if own else [])]:
            if target.exists() and not overwrite:
                raise ValueError(f"{target} exists; expected another --name, or --replace")
        if own:
            shutil.rmtree(scripts, ignore_errors=True)
            shutil.copytree(Path(scratch) / "scripts" / name, scripts, symlinks=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tried, path)
    return path
