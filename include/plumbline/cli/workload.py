"""`plumbline workload`: your own traffic, prompts and training scripts as workloads."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plumbline.cli.declared import inference_workload
from plumbline.cli.output import Json, clear_errors, emit, fail, out, table
from plumbline.declarations import DeclarationError
from plumbline.declarations.problems import display_path
from plumbline.declarations.workloads.script_files import packed_files
from plumbline.formats.reading.access_log import ACCESS_LOGS
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.metrics.formatting import format_count
from plumbline.metrics.units import SECONDS, parse
from plumbline.workflows.workload_from_log import TEMPLATE, WorkloadOfLog, workload_from_log

if TYPE_CHECKING:
    from plumbline.workflows.new_script import Understood

    LogFormat = str
else:
    LogFormat = Literal[tuple(ACCESS_LOGS)]

_PACKED_SHOWN = 30
workload = typer.Typer(help="Make workloads from your own traffic, prompts and training scripts.", no_args_is_help=True)


@workload.command("from-log")
def from_log(
    file: Annotated[Path, typer.Argument(help="the access log, such as docs/samples/vllm.log; no text of it is kept")],
    name: Annotated[str | None, typer.Option(help="of the workload; the file's name if left out")] = None,
    kind: Annotated[LogFormat | None, typer.Option("--format", help="recognised if left out")] = None,
    like: Annotated[str, typer.Option(help="the inference workload whose model, server and limits it takes")] = TEMPLATE,
    start: Annotated[str, typer.Option(help="where in the log to begin, such as 2h")] = "0s",
    duration: Annotated[str | None, typer.Option(help="how much of the log to replay, such as 10min; all of it if left out")] = None,
    input_tokens: Annotated[int | None, typer.Option(min=1, help="for requests whose prompts' lengths the log lacks")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="for requests whose answers' lengths the log lacks")] = None,
    config: Annotated[Path | None, typer.Option(help="folder of declarations; the installation's own if left out")] = None,
    as_json: Json = False,
) -> None:
    """Turn an access log of vLLM or LiteLLM into a workload that replays its arrivals, lengths and conversations."""
    called = _name(name, file.name.split(".")[0])
    with clear_errors(UnusableFile, DeclarationError, ValueError):
        begin, length = (None if text is None else parse(text, SECONDS, "a duration", "10min") for text in (start, duration))
        written = workload_from_log(
            file,
            called,
            kind=kind,
            like=like.removeprefix("inference/"),
            start_s=begin or 0.0,
            duration_s=length,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            config=config,
        )
    emit(as_json, written, lambda: _show(written))


def _name(given: str | None, source: str) -> str:
    called = given or re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", called):
        fail(f'"{called}" is no workload\'s name; expected --name with lower-case letters, digits and dashes, at most 63')
    return called


@workload.command("new")
def new(
    command: Annotated[
        str | None, typer.Option(help="what trains, such as 'python train.py --batch-size 8', started in the folder")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="of its files, at most 1 MiB compressed; with --git a checkout to try them")] = None,
    git: Annotated[str | None, typer.Option(metavar="URL@COMMIT", help="trials fetch the files from here, not from the folder")] = None,
    name: Annotated[str | None, typer.Option(help="of the workload; the folder's if left out")] = None,
    report: Annotated[str | None, typer.Option(help="a format by name, or a regular expression; recognised if left out")] = None,
    report_every: Annotated[
        int | None, typer.Option(min=1, help="the script's steps from one report to the next, where reports have no number")
    ] = None,
    tokens: Annotated[float | None, typer.Option(min=0, help="of one of the script's steps; found in its settings if left out")] = None,
    samples: Annotated[float | None, typer.Option(min=0, help="in place of tokens")] = None,
    checkpoints: Annotated[str | None, typer.Option(help="folder below the script's that it writes them to")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(min=1, help="of the script's steps")] = None,
    resume: Annotated[str | None, typer.Option(help="arguments that make the command go on from its newest checkpoint")] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="ranks on a node")] = 1,
    launches_ranks: Annotated[bool, typer.Option("--launches-ranks", help="the command starts them, as torchrun does")] = False,
    accelerator: Annotated[Literal["cpu", "gpu"], typer.Option()] = "gpu",
    steps: Annotated[int | None, typer.Option(min=1, help="reports that a trial measures, after a tenth as many that it discards")] = None,
    limit: Annotated[str, typer.Option(help="the longest that the command is tried here")] = "2min",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="ask nothing: take what was understood")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="write over a workload of that name")] = False,
) -> None:
    """Run a training script here until it has reported ten steps, show what was understood, and declare it as a workload."""
    from plumbline.workflows import new_script

    def ask(question: str, given: Any, default: Any) -> Any:
        return given if given is not None else default if yes else typer.prompt(question, default=default, type=type(default))

    words = shlex.split(ask("Command that trains", command, "python train.py"))
    files = Path(ask("Folder of its files", folder, ".")).expanduser().resolve()
    if git is None:
        try:
            _show_packed(packed_files(files))
        except UnusableFile as error:
            fail(f"{error}; with --git URL@COMMIT trials fetch the files, and the folder is only tried here")
    called = _name(ask("Name of the workload", name, _name(None, files.name)), files.name)
    with clear_errors(ValueError, OSError, UnusableFile, DeclarationError):
        seconds = parse(limit, SECONDS, "a duration", "2min")
        out.print(f"running it here until it has reported {new_script.WANTED} steps, at most {limit}")
        found = new_script.understand(
            words, files, None if report is None else new_script.report_named(report), seconds, ranks=1 if launches_ranks else processes
        )
        out.print(f"{_losses(found)}; {_pace(found)}, read as {found.report.format}")
        if found.counted:
            out.print(f"its reports have no step number: trials are degraded (steps_counted) unless a progress bar agrees; {found.counted}")
            found = found.with_every(int(ask("Steps of the script from one report to the next", report_every, found.every)))
        every = found.every
        settings = new_script.settings_of(words, files)
        guess = new_script.work_of_step(settings, processes)
        if guess is not None and tokens is None and samples is None:
            out.print(f"{guess[1]:,} {guess[0]} a step by {guess[2]}{'' if yes else '; is that right?'}")
        unit, known, _ = ("samples", 0, "") if samples is not None else guess if tokens is None and guess is not None else ("tokens", 0, "")
        work = float(ask(f"{unit.capitalize()} of a step of the whole job (0: unknown)", tokens if samples is None else samples, known))
        ends, saves = new_script.steps_of(settings)
        most = (ends or 66 * every) // every
        measured = ask("Reports that a trial measures", steps, min(60, most * 10 // 11))
        where = ask("Folder of its checkpoints (- if none)", checkpoints, found.checkpoints or "-")
        task: dict[str, Any] = {"kind": "script", "command": words, "files": {"source": "folder", "path": called}}
        if git is not None:
            url, _, commit = git.rpartition("@")
            task["files"] = {"source": "git", "url": url, "commit": commit}
        task["report"] = found.report.model_dump(mode="json", exclude_defaults=True)
        task["launches_ranks"] = launches_ranks
        declared = {
            "kind": "training",
            "name": called,
            "version": 1,
            "description": f"{words[-1] if len(words) == 1 else ' '.join(words[:2])} as a script",
            "on_demand_only": True,
            "needs": {"accelerator": accelerator, "count": processes},
            "parallelism": {"processes": processes},
            "task": task,
            "work": {unit: work * every} if work else {},
            "steps": {"discard": measured // 10, "measure": measured},
            "repeats": {"per_slot": 2, "slots": ["02:00"]},
        }
        if where != "-":
            between = max(1, ask("Steps between two checkpoints", checkpoint_every, saves or 10 * every) // every)
            task["checkpoints"] = {"folder": where, "every": between}
            arguments = ask("Arguments that resume from the newest one (- if it cannot)", resume, "-")
            if arguments != "-":
                task["resume_arguments"] = shlex.split(arguments)
                if between + between // 2 <= measured:
                    declared["fault"] = {"inject": "rank_kill", "at_step": between + between // 2}
        path = new_script.write_script(declared, files, overwrite=replace)
    out.print(f"wrote {display_path(path)}; next: plumbline check, then plumbline trial training/{called} --provider local")


def _show_packed(files: list[tuple[str, int]]) -> None:
    """All of few files, of many the largest."""
    shown = sorted(sorted(files, key=lambda file: -file[1])[:_PACKED_SHOWN])
    rest = f", the {_PACKED_SHOWN} largest" if len(files) > _PACKED_SHOWN else ""
    out.print(f"each trial carries {format_count(len(files), 'file')}, {sum(size for _, size in files):,} bytes{rest}:")
    for name, size in shown:
        out.print(f"  {name}  {size:,} bytes", markup=False, highlight=False, soft_wrap=True)


def _pace(found: Understood) -> str:
    if found.report.uneven:
        return "the refreshes of a progress bar, each with the number of its step"
    return f"a report every {format_count(found.every, 'step')}"


def _losses(found: Understood) -> str:
    losses = [each.loss for each in found.reports if each.loss is not None]
    return f"{format_count(len(found.reports), 'report')}" + (f", loss {losses[0]:.4g} → {losses[-1]:.4g}" if losses else "")


@workload.command("check-prompts")
def prompts(
    name: Annotated[str, typer.Argument(help="a declared inference workload with requests.prompts")],
    tokenizer: Annotated[
        Path | None, typer.Option(help="folder of a checkpoint's tokenizer, where the model's own is not on this machine")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch, render and tokenise a workload's own prompts, compare them with the model's context and show their lengths; no server starts."""
    spec = inference_workload(name)
    # NumPy and the tokenizers take half a second, which `plumbline workload --help` does not wait for.
    from plumbline.harness.inference.load.own_prompts import PromptFetchFailed
    from plumbline.workflows.check_prompts import check_prompts

    with clear_errors(ValueError, PromptFetchFailed):
        checked = check_prompts(spec, tokenizer)

    def show() -> None:
        out.print(f"{checked.prompts:,} prompts, {checked.requests:,} requests, SHA-256 {checked.sha256}")
        if checked.tokens is None:
            out.print("tokens: not counted here; the server counts them (--tokenizer names a checkpoint's folder)")
            return
        low, median, high, top = checked.tokens
        limit = f"; the model's context is {checked.context:,}" if checked.context else ""
        out.print(f"tokens: min {low:,} · p50 {median:,} · p95 {high:,} · max {top:,}{limit}")

    emit(as_json, checked, show)


def _show(written: WorkloadOfLog) -> None:
    linked = f", {written.conversations:,} conversations" if written.conversations else ""
    out.print(
        f"{written.requests:,} requests in {written.seconds:,.6g} s ({written.requests / written.seconds:.3g}/s){linked}, from a {written.format} log"
    )
    lengths = table("", "tokens", "min", "p50", "p95", "max", right=("min", "p50", "p95", "max"))
    for what, values in (("in", written.input_tokens), ("out", written.output_tokens)):
        lengths.add_row(what, *(f"{value:,}" for value in values))
    out.print(lengths)
    for reason, n in written.skipped.items():
        out.print(f"left out: {n:,} {reason}")
    for line in written.unknown:
        out.print(f"not in the log: {line}")
    out.print(f"workload: {written.workload}")
    out.print(f"trace: {written.trace}")
    out.print(f"next: plumbline check, then plumbline trial inference/{written.name}")
