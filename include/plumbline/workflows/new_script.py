"""Declare a team's training script: run it for some steps, recognise how it reports them, and write the workload."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from math import prod
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from plumbline.declarations import DeclarationError, installation_paths
from plumbline.declarations.loader import display_path, load_file
from plumbline.declarations.workloads.script import Report
from plumbline.declarations.workloads.script_files import copy_packed
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.formats.reading.training_log import TRAINING_LOGS
from plumbline.harness.gang.channel import free_port
from plumbline.harness.process_tree import kill_tree
from plumbline.harness.training.script.reports import Reported
from plumbline.harness.training.script.variables import command_environment
from plumbline.harness.training.worker_protocol import ProcessGroupSpec
from plumbline.workflows.script_recognition import Recognised, lines_of, recognise

WANTED = 10
_READ_BYTES = 1 << 22
_BATCH = r"(global|micro|local|train|per_device|_)*(batch|batch_?size|bs)"
_LENGTH = r"block_size|(max_)?seq(uence)?_?len(gth)?|context(_len(gth)?)?|max_length|n_ctx"
_ACCUMULATION = r"(grad(ient)?_)?accum(ulation|ulate)?(_steps)?|accumulate_grad_batches"
_BETWEEN = r"(checkpoint|ckpt|save|saving)_?(every|interval|steps|freq|frequency|period)"
_LOGGED = r"(log|logging|print|report)_?(every|interval|steps|freq|frequency)(_n_steps)?"
_STEPS = r"((max|num|n|total|train|training)_?)*(steps|iters|iterations)"
Settings = Mapping[str, tuple[str, int]]


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
    """Run the command, as `ranks` processes, in a copy of the folder until it has reported WANTED times, one ends, or `limit_s` is over.

    ValueError with the last lines of its output if it reports nothing that `report` (None: any format) reads."""
    with tempfile.TemporaryDirectory(prefix="plumbline-script-") as scratch:
        copy, output, events = Path(scratch) / "files", Path(scratch) / "output", Path(scratch) / "events"
        copy_packed(folder, copy, bounded=False)
        before = {path for path in copy.rglob("*") if path.is_file()}
        events.touch()
        place = partial(ProcessGroupSpec, world=ranks, nodes=1, backend="", host="127.0.0.1", port=free_port(), run="run")
        groups = [place(rank=rank, local=rank) if ranks > 1 else None for rank in range(ranks)]
        threads = max((os.cpu_count() or 1) // ranks, 1)
        variables = [command_environment(str(events), group, launches_ranks=False, threads=threads) for group in groups]
        with output.open("wb") as sink:
            sinks = (sink, *repeat(subprocess.DEVNULL, ranks - 1))
            started = partial(subprocess.Popen, command, cwd=copy, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            processes = [started(env=each, stdout=into) for each, into in zip(variables, sinks, strict=True)]
        process = processes[0]
        try:
            found: Recognised | str = ""
            until, ended = time.monotonic() + limit_s, False
            while not ended and (isinstance(found, str) or len(found.reports) < WANTED) and time.monotonic() < until:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
                ended = any(each.poll() is not None for each in processes)
                new = sorted(path for path in copy.rglob("*") if path.is_file() and path not in before)
                found = recognise(lines_of(output), lines_of(events), copy, new, report)
        finally:
            for each in processes:
                kill_tree(each.pid)
                each.wait()
        if isinstance(found, str):
            last = "\n".join(lines_of(output)[-20:])
            failed = [each.returncode for each in processes if each.returncode != -9]
            what = f"ended with exit status {failed[0]}" if failed else f"ran for {limit_s:g} s (--limit)"
            expected = f"{report.format}'s" if report is not None else "one of a known format, or with a step or loss and its number"
            why = f" ({found})" if found else ""
            raise ValueError(
                f"the command {what} and reported no step{why}; expected {expected}, by output, file or plumbline_report; its last lines:\n{last}"
            )
        return _understood(found, settings_of(command, folder), _checkpoints(copy, new))


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
