"""`plumbline archive import` and `import-mlperf`: bundles of another archive, files of other benchmark tools, MLPerf Training rounds."""

from __future__ import annotations

import getpass
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from plumbline import workflows
from plumbline.archive import Refused
from plumbline.archive.bundle import BadBundle, ImportedCampaign
from plumbline.cli.declared import as_day
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import Json, clear_errors, emit, fail, marked, open_archive, out, read_archive, table
from plumbline.declarations import DeclarationError, load
from plumbline.formats import TOOL_FILES
from plumbline.formats.reading.published_table import PUBLISHED_TABLES
from plumbline.metrics.formatting import common_scale, format_count, format_name
from plumbline.results.published import PublishedResult
from plumbline.results.published_tables import read_table
from plumbline.workflows.import_results import ImportedFile

_SHOWN = ("value", "mean", "p50", "p95", "p99")


def import_(
    source: Annotated[Path, typer.Argument(metavar="FOLDER|FILE", help="what `archive export` wrote; with --from, a tool's file")],
    campaign: Annotated[list[str] | None, typer.Option(help="of a folder only this campaign; may be repeated")] = None,
    tool: Annotated[str | None, typer.Option("--from", metavar="TOOL", help=f"the file's tool: {', '.join(TOOL_FILES)}")] = None,
    provider: Annotated[str | None, typer.Option(help="of a file: the declared provider that was measured")] = None,
    workload: Annotated[str | None, typer.Option(help="of a file: the declared inference workload that comes nearest")] = None,
    day: Annotated[
        str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="of a file that does not say when it was measured")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import campaigns that another archive exported, or a result file of another benchmark tool.

    Existing rows stay. A campaign that contradicts the archive or its documents is refused, with exit code 1. A tool's file becomes published
    results, never mixed with measured ones; a file that is not the tool's is refused with exit code 2 and nothing is written."""
    if tool is not None:
        if provider is None or workload is None:
            fail(f"--from {tool} without {'--provider' if provider is None else '--workload'}; expected --provider and --workload")
        if campaign:
            fail("--campaign with --from; expected it with a folder alone")
        _import_file(source, tool, provider, workload, as_day("--date", day), as_json)
        return
    if unused := [name for name, value in (("--provider", provider), ("--workload", workload), ("--date", day)) if value is not None]:
        fail(f"{unused[0]} without --from; expected the file's tool, one of {', '.join(TOOL_FILES)}")
    if source.is_file():
        fail(f"{source} is a file; expected the folder of `archive export`, or --from with one of {', '.join(TOOL_FILES)}")
    with clear_errors(LookupError, BadBundle, OSError), open_archive() as opened:
        done = workflows.transfer.import_bundle(opened, source, campaign, getpass.getuser())
    emit(as_json, done, lambda: _show_imported(done))
    raise typer.Exit(FAILED if any(one.refused for one in done) else OK)


def _import_file(file: Path, tool: str, provider: str, workload: str, day: date | None, as_json: bool) -> None:
    with clear_errors(LookupError, ValueError, DeclarationError, Refused, OSError):
        declared = load()
        with open_archive() as archive:
            done = workflows.import_results.import_benchmark_file(archive, declared, file, tool, provider, workload, day)
    emit(
        as_json,
        {
            "source": done.results[0].source,
            "campaign": done.results[0].campaign_id,
            "imported": done.imported.inserted,
            "unchanged": done.imported.unchanged,
            "kept_out": done.imported.kept_out,
            "runs": [_run(result) for result in done.results],
        },
        lambda: _show_file(done),
    )


def _run(result: PublishedResult) -> dict[str, object]:
    figures = [{name: getattr(m, name) for name in ("metric", "statistic", "value", "unit", "n", "method")} for m in result.metrics]
    return {
        "trial_id": result.trial_id,
        "measured_on": result.published_at.date(),
        "load": result.spec["load"],
        "validity": result.validity,
        "figures": figures,
        "gaps": result.gaps,
    }


def _show_file(done: ImportedFile) -> None:
    for result in done.results:
        out.print(marked("[bold]{}[/]: {}", result.spec["load"], result.trial_id))
        shown = table("", "figure", *_SHOWN, right=_SHOWN)
        for metric in dict.fromkeys(m.metric for m in result.metrics):
            own = {m.statistic: m for m in result.metrics if m.metric == metric}
            scale = common_scale(next(iter(own.values())).unit, [m.value for m in own.values()], metric)
            shown.add_row(format_name(metric), *(scale.text(own[s].value) if s in own else "" for s in _SHOWN))
        out.print(shown)
        for reason in result.validity.reasons:
            out.print(f"  {result.validity.status}: {reason.detail}", style="yellow")
        for gap in result.gaps:
            out.print(f"  {gap.code}: {gap.detail}")
    source = done.results[0].source
    assert source is not None
    new, known = done.imported.inserted, done.imported.unchanged
    out.print(f"{source.name} (SHA-256 {source.sha256[:16]}…): {format_count(new, 'run')} imported, {known} known already")
    for name in done.imported.kept_out:
        out.print(f"  kept out: the archive holds {name} with other values, which stay", style="yellow")


def imports(as_json: Json = False) -> None:
    """List what was imported from other tools and publishers, newest first, with the id that `forget-import` takes."""
    with read_archive(listing=True, as_json=as_json) as opened:
        rows = opened.imports()

    def show() -> None:
        shown = table("Imports", "id", "tool", "file", "provider", "workload", "measured", "runs", right=("runs",))
        for one in rows:
            workload = f"{one.workload}@{one.version}"
            shown.add_row(one.import_id, one.publisher, one.file or "", one.provider, workload, str(one.measured_on), str(one.runs))
        out.print(shown if rows else "nothing was imported; `plumbline archive import FILE --from TOOL` imports a file")

    emit(as_json, rows, show)


def forget_import(
    import_id: Annotated[str, typer.Argument(metavar="ID", help="as `archive imports` lists it")],
    why: Annotated[str, typer.Option(help="the reason, for the audit log")],
    provider: Annotated[str | None, typer.Option(help="only what was imported for this provider")] = None,
    workload: Annotated[str | None, typer.Option(help="only what was imported for this workload")] = None,
    as_json: Json = False,
) -> None:
    """Delete an import, such as one under a wrong provider or workload. Measured results are refused; the audit log names what was deleted."""
    with clear_errors(LookupError, ValueError, Refused), read_archive() as opened:
        done = opened.forget_import(import_id, by=getpass.getuser(), why=why, provider=provider, workload=workload)

    def show() -> None:
        for one in done:
            out.print(f"{one.import_id}: {format_count(one.runs, 'run')} of {one.provider} {one.workload} forgotten")

    emit(as_json, done, show)


def _show_imported(done: list[ImportedCampaign]) -> None:
    shown = table("Imported", "campaign", "new trials", "there already", "notes", right=("new trials", "there already"))
    for one in done:
        shown.add_row(one.campaign_id, str(one.new), str(one.known), one.refused or "; ".join(one.notes))
    out.print(shown if done else "nothing to import")


def import_mlperf(
    file: Annotated[Path, typer.Argument(help="CSV, one run a row: docs/samples/mlperf.csv", exists=True, dir_okay=False, readable=True)],
    rounds: Annotated[
        list[str] | None, typer.Option("--round", help="a round that is not known here and when it was published, such as v6.0=2026-06-03")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import published MLPerf Training runs: never scored, never compared with what was measured here. Again changes nothing."""
    with clear_errors(ValueError, Refused):
        # utf-8-sig: spreadsheets put a mark before the first column's name.
        mlperf = PUBLISHED_TABLES["mlperf-training"]
        published = {**mlperf.published, **dict(_round(text) for text in rounds or ())}
        try:
            with file.open(newline="", encoding="utf-8-sig") as lines:
                parsed = read_table(mlperf, lines, published)
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not text in UTF-8 ({error}); expected a CSV file") from error
        with open_archive() as archive:
            imported = archive.import_outside(parsed.results)
    statuses = Counter(r.validity.status for r in parsed.results)
    counted = {
        "rows": len(parsed.results) + len(parsed.rejected),
        "imported": imported.inserted,
        "unchanged": imported.unchanged,
        "kept_out": imported.kept_out,
        "rejected": parsed.rejected,
        "valid": statuses["valid"],
        "invalid": statuses["invalid"],
        "campaigns": sorted({r.campaign_id for r in parsed.results}),
        "series": len({r.series_key for r in parsed.results}),
    }

    def show() -> None:
        shown = table("", "campaign", "runs", "valid", "invalid", "series", right=("runs", "valid", "invalid", "series"))
        for campaign in sorted({r.campaign_id for r in parsed.results}):
            own = [r for r in parsed.results if r.campaign_id == campaign]
            valid = sum(r.validity.status == "valid" for r in own)
            shown.add_row(campaign, str(len(own)), str(valid), str(len(own) - valid), str(len({r.series_key for r in own})))
        if parsed.results:
            out.print(shown)
        out.print(
            f"{counted['rows']} rows: {imported.inserted} imported, {imported.unchanged} known already, "
            f"{len(imported.kept_out)} kept out, {len(parsed.rejected)} rejected"
        )
        for name in imported.kept_out:
            out.print(f"  kept out: the archive holds {name} with other values, which stay")
        for bad in parsed.rejected:
            out.print(f"  {file.name}:{bad.line}  {bad.reason}", style="yellow")

    emit(as_json, counted, show)


def _round(text: str) -> tuple[str, date]:
    name, _, day = text.partition("=")
    try:
        return name, date.fromisoformat(day)
    except ValueError:
        raise ValueError(f'--round "{text}"; expected a name and a date such as v6.0=2026-06-03') from None
