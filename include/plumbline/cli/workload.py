"""`plumbline workload`: your own traffic and prompts as workloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.declared import inference_workload
from plumbline.cli.output import Json, clear_errors, emit, fail, out, table
from plumbline.declarations import DeclarationError
from plumbline.declarations.workloads.access_logs import LogFormat
from plumbline.declarations.workloads.text_file import UnusableFile
from plumbline.metrics.units import SECONDS, parse
from plumbline.workflows.workload_from_log import TEMPLATE, WorkloadOfLog, workload_from_log

workload = typer.Typer(help="Make workloads from your own traffic and prompts.", no_args_is_help=True)


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
    called = name or re.sub(r"[^a-z0-9]+", "-", file.name.split(".")[0].lower()).strip("-")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", called):
        fail(f'"{called}" is no workload\'s name; expected --name with lower-case letters, digits and dashes, at most 63')
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
    from plumbline.harness.inference.load.own_prompts import FetchFailed
    from plumbline.workflows.check_prompts import check_prompts

    with clear_errors(ValueError, FetchFailed):
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
