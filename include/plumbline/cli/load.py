"""`plumbline load`: load a server that is already there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plumbline.cli.exit_status import FAILED
from plumbline.cli.output import Json, clear_errors, emit, err, fail, marked, out, table
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_count, format_name, unknown_name
from plumbline.metrics.units import PER_SECOND, SECONDS, parse

if TYPE_CHECKING:
    from plumbline.results import MetricRow
    from plumbline.workflows.load_server import LoadedServer

_STATISTICS = ("p50", "p95", "p99")


def load(
    url: Annotated[str, typer.Argument(help="grpc://host:8001 of a KServe v2 server, or http://host:8000/v1 of an OpenAI server")],
    rate: Annotated[str, typer.Option(help="requests a second, such as 200")],
    lasts: Annotated[str, typer.Option("--for", help="how long requests are sent, such as 30s")] = "30s",
    api: Annotated[str | None, typer.Option(help="kserve, openai or openai_chat; by the URL if left out")] = None,
    model: Annotated[str | None, typer.Option(help="the model's name; the only one that is served if left out")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="a prompt a line (.txt), or an object a line (.jsonl): prompt, messages, or inputs by name")
    ] = None,
    input_tokens: Annotated[int, typer.Option(min=1, help="of text that is made where no prompts are given")] = 128,
    output_tokens: Annotated[int, typer.Option(min=1, help="most tokens, or responses, of an answer")] = 64,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="ask for exactly so many tokens, as vLLM and SGLang can")] = False,
    arrivals: Annotated[str, typer.Option(help="poisson or constant")] = "poisson",
    timeout: Annotated[str, typer.Option(help="of a request, from the moment at which it is due")] = "60s",
    seed: Annotated[int, typer.Option(help="of arrivals and prompts")] = 0,
    as_json: Json = False,
) -> None:
    """Load a server that is already there at one rate, and show its latencies; nothing is declared or archived.

    Open loop: requests are sent at their moments, however slow the answers are, and latency counts from there. The last line says whether the
    client itself kept up. A key is read from OPENAI_API_KEY. Exit code 1 if no request was answered or the client did not keep up.
    """
    with clear_errors(ValueError):
        per_second = parse(rate if "/" in rate else f"{rate}/s", PER_SECOND, "--rate", "200 or 200/s")
        duration_s, timeout_s = (parse(text, SECONDS, name, "30s") for name, text in (("--for", lasts), ("--timeout", timeout)))
        if min(per_second, duration_s, timeout_s) <= 0:
            raise ValueError("--rate, --for and --timeout must be above 0; expected such as --rate 200 --for 30s")
    # Numpy and gRPC take half a second, which `plumbline load --help` does not wait for.
    from plumbline.workflows import load_server as workflow

    for flag, value, known in (("--api", api, workflow.APIS), ("--arrivals", arrivals, workflow.PROCESSES)):
        if value is not None and value not in known:
            fail(f"{flag}: {unknown_name('value', value, known)}")
    chosen: Any = {"api": api, "arrivals": arrivals}
    asked = workflow.ServerLoad(
        url,
        per_second,
        duration_s,
        model=model,
        prompts=prompts,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ignore_eos=ignore_eos,
        timeout_s=timeout_s,
        seed=seed,
        key=os.environ.get("OPENAI_API_KEY") or None,
        **chosen,
    )
    try:
        with clear_errors(ValueError):
            loaded = workflow.load_server(asked, None if as_json or not err.is_terminal else _progress)
    except workflow.LoadFailed as error:
        fail(str(error), FAILED)
    emit(as_json, loaded, lambda: _show(loaded))
    if not loaded.finished or loaded.verdict == "invalid":
        raise typer.Exit(FAILED)


def _progress(ended: int, due: int) -> None:
    err.print(f"{ended:,} of {due:,} requests", end="\r")


def _show(loaded: LoadedServer) -> None:
    from plumbline.workflows.load_server import CLIENT, LATENCIES, RATES

    rows = {(row.metric, row.statistic): row for row in loaded.metrics}
    style = {"valid": "green", "degraded": "yellow", "invalid": "bold red"}[loaded.verdict]
    sent = format_count(loaded.requests, "request")
    out.print(f"{loaded.model} at {loaded.address} ({loaded.api}): {loaded.finished:,} of {sent} answered in {loaded.seconds:.1f} s")
    shown = table("", "latency", *_STATISTICS, "mean", right=(*_STATISTICS, "mean"))
    for metric in LATENCIES:
        if (metric, "p50") in rows:
            shown.add_row(format_name(metric), *(_cell(rows[metric, statistic]) for statistic in (*_STATISTICS, "mean")))
    out.print(shown)
    for metric in (*RATES, *CLIENT):
        row = rows.get((metric, METRICS[metric].statistic))
        if row is not None and row.value is not None:
            out.print(f"{format_name(metric)}{' p99' if row.statistic == 'p99' else ''}: {_cell(row)}")
    for error, n in loaded.errors.items():
        out.print(f"failed: {n:,} × {error}")
    if loaded.first_error:
        out.print(f"first error: {loaded.first_error}")
    words = loaded.reason or "it was on time and had CPU time left"
    out.print(marked(f"client: [{style}]{{}}[/{style}], {{}}", loaded.verdict, words))


def _cell(row: MetricRow) -> str:
    """A value with its 95 % interval in one unit."""
    if row.value is None:
        return f"– (n = {row.n})"
    scale = common_scale(row.unit, [row.value, row.ci_low, row.ci_high], row.metric)
    between = "" if row.ci_low is None else f" ({scale.number(row.ci_low)}–{scale.number(row.ci_high)})"
    return f"{scale.text(row.value)}{between}"
