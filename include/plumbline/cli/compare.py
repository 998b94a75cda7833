"""`plumbline compare` and `plumbline drift detect`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic_core import from_json
from rich.text import Text

from plumbline.analysis.drift.change_detection import MINIMUM_CHANGE, detect_changes
from plumbline.analysis.drift.comparison import VERDICTS, Comparison
from plumbline.analysis.drift.environment import changes_by_group
from plumbline.answers.compare import ComparisonSet, compare_finding, compare_named
from plumbline.cli.exit_status import DRIFTED, OK, UNUSABLE
from plumbline.cli.output import Json, clear_errors, completed, emit, fail, marked, out, read_archive, table
from plumbline.declarations import DeclarationError, load
from plumbline.metrics.formatting import format_change, format_quantity, shorten
from plumbline.words.drift import comparison_data, format_effect, format_interval, format_repeats_needed, left_out_text

Side = Annotated[
    str | None,
    typer.Argument(help="campaign, provider or trial id, or how it begins", callback=completed("campaign", "provider", "trial")),
]
_FEW = 3
"""Unchanged metrics that are listed one by one."""
_STYLE = {
    "regressed": "bold red",
    "improved": "green",
    "suspected": "yellow",
    "moved": "yellow",
    "unchanged": "green",
    "insufficient_data": "dim",
}


def compare(
    old: Side = None,
    new: Side = None,
    finding: Annotated[str | None, typer.Option(help="instead: what this finding's review compared", callback=completed("finding"))] = None,
    provider: Annotated[str | None, typer.Option(help="only this provider's series")] = None,
    workload: Annotated[str | None, typer.Option(help="only this workload's series")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="also the metrics that have no threshold, and changes that do not matter")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two campaigns, providers or trials: effect, interval and verdict by metric, and what changed around them.

    What is not comparable is refused field by field. Exit code 4 if something drifted.
    """
    with clear_errors(LookupError, DeclarationError, ValueError), read_archive() as archive:
        if finding is not None and old is None and provider is None and workload is None:
            compared = compare_finding(archive, load(), finding)
        elif finding is None and old is not None and new is not None:
            compared = compare_named(archive, load(), old, new, provider=provider, workload=workload)
        else:
            raise ValueError("expected two campaigns, providers or trials; or --finding ID alone")
    comparisons = compared.comparisons
    only = {"old": compared.only_old, "new": compared.only_new}
    emit(
        as_json,
        {
            "verdict": overall(comparisons),
            "comparisons": [comparison_data(c) for c in comparisons],
            "only_in": only,
            "series": compared.series,
        },
        lambda: _show(compared, old or "", new or "", everything),
    )
    # Two providers differ, and that is no drift.
    raise typer.Exit(DRIFTED if compared.kind != "provider" and any(c.drifted for c in comparisons) else OK)


def overall(comparisons: Sequence[Comparison]) -> str:
    """The most severe verdict of all series; `not judged` if what was comparable has no thresholds, `not comparable` if nothing was."""
    verdicts = [c.verdict for c in comparisons if c.verdict is not None]
    return next((v for v in VERDICTS if v in verdicts), "not judged" if any(not c.problems for c in comparisons) else "not comparable")


def _show(compared: ComparisonSet, old: str, new: str, everything: bool) -> None:
    counted = Counter(r.verdict.replace("_", " ") for c in compared.comparisons for r in c.rows if r.verdict)
    summary = ", ".join(f"{n} {verdict}" for verdict, n in counted.most_common())
    verdict = overall(compared.comparisons)
    out.print(Text.assemble((verdict.replace("_", " "), _STYLE.get(verdict, "bold")), f"  (metrics: {summary})" if summary else ""))
    equal = [c for c in compared.comparisons if not everything and len(compared.comparisons) > 1 and _unchanged(c)]
    for comparison, series in zip(compared.comparisons, compared.series, strict=True):
        if comparison not in equal:
            _show_comparison(comparison, series, everything)
    if equal:
        out.print(f"{len(equal)} series unchanged: {shorten((c.series_key for c in equal), 2)} (--all)")
    for side, only in ((old, compared.only_old), (new, compared.only_new)):
        if only:
            out.print(f"{len(only)} series only in {side}: {shorten(only)}", style="dim")


def _unchanged(comparison: Comparison) -> bool:
    quiet = not comparison.problems and not any(c.matters for c in comparison.environment_changes)
    return quiet and comparison.verdict == "unchanged" and not comparison.imported


def _show_comparison(comparison: Comparison, series: tuple[str, str], everything: bool) -> None:
    against = ", ".join(comparison.baseline_campaigns)
    other = "  SIMULATED" if comparison.simulated else "  IMPORTED" if comparison.imported else ""
    out.print(marked("[bold]{}[/][yellow]{}[/]", comparison.series_key, other))
    against = against if series[0] == series[1] else f"{against} of {series[0]}"
    out.print(f"{comparison.candidate_campaign} against {against}")
    for problem in comparison.problems:
        out.print(f"  not comparable: {problem}", style="yellow")
    if gone := left_out_text(comparison):
        out.print(f"  {gone}", style="dim")
    _metrics(comparison, everything)
    # Nobody can judge what others measured by a threshold of ours: there everything is shown.
    changes = [c for c in comparison.environment_changes if everything or c.matters or comparison.imported]
    for group, own in changes_by_group(changes):
        out.print(f"  {group}", style="bold")
        for c in own:
            out.print(f"    {c.text}", style=None if c.matters else "dim")
    left_out = len(comparison.environment_changes) - len(changes)
    if left_out:
        out.print(f"  {left_out} changes around it that do not matter (--all shows them)", style="dim")
    elif not changes and not comparison.problems:
        out.print("  environment: no change", style="dim")


def _metrics(comparison: Comparison, everything: bool) -> None:
    rows = [r for r in comparison.rows if everything or r.verdict is not None or comparison.imported]
    equal = [] if everything or comparison.imported else [r for r in rows if r.verdict == "unchanged"]
    if len(equal) > _FEW:
        rows = [r for r in rows if r not in equal]
        out.print(f"  {len(equal)} metrics unchanged (--all)", style="green")
    if not rows:
        return
    columns = ("metric", "statistic", "phase", "before", "after", "change", "interval", "sees from", "verdict")
    shown = table("", *columns, right=("before", "after", "change", "sees from"))
    for r in rows:
        verdict = (r.verdict.replace("_", " "), _STYLE[r.verdict]) if r.verdict else ("not judged", "dim")
        more = format_repeats_needed(r)
        shown.add_row(
            r.metric,
            r.statistic,
            r.phase,
            format_quantity(r.baseline, r.unit),
            format_quantity(r.candidate, r.unit),
            format_effect(r),
            format_interval(r, comparison.confidence) if r.ci_low is not None else "",
            "" if r.mde is None else "over 100 %" if r.mde > 1 else format_change(r.mde),
            Text.assemble(verdict, f" ({more})" if more else ""),
        )
    out.print(shown)
    for note in dict.fromkeys(note for r in rows for note in r.notes):
        about = [f"{r.metric} {r.statistic}" for r in rows if note in r.notes]
        out.print(f"  {'all' if len(about) == len(rows) else shorten(about)}: {note}", style="dim")


drift = typer.Typer(help="Find change points in series from other sources.", no_args_is_help=True)


@drift.command()
def detect(
    stdin: Annotated[bool, typer.Option("--stdin", help='JSON lines: {"values": [101.2, null, …]}, one series a line')] = False,
    floor: Annotated[float | None, typer.Option(help="least relative change, such as 0.05; default 0.015")] = None,
) -> None:
    """Print, for each series read, a JSON list of the 0-based indices of the first points after its changes.

    Each line is answered at once, in order. null and NaN are missing points. Other fields, such as `repeats`, are not used.
    A line that is no such series is answered with null and named on standard error; the lines around it are not affected, and the
    exit code is then 2.
    """
    if not stdin:
        fail("nothing to read; expected --stdin and JSON lines on standard input")
    # ruptures and scipy take a second: `plumbline --help` does not wait for them.
    least = MINIMUM_CHANGE if floor is None else floor
    code = OK
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            answer: list[int] | None = [change.index for change in detect_changes(_values(line), floor=least)]
        except (ValueError, OverflowError) as error:
            answer, code = None, UNUSABLE
            print(f"line {number}: {error}", file=sys.stderr, flush=True)
        print(json.dumps(answer), flush=True)
    raise typer.Exit(code)


def _values(line: str) -> list[float | None]:
    """The series of one line. Raises ValueError that names the field and what was expected."""
    try:
        parsed: Any = from_json(line)
    except ValueError as error:
        raise ValueError(f'not JSON ({error}); expected {{"values": [101.2, 100.9, null]}}') from None
    values = parsed.get("values") if isinstance(parsed, dict) else None
    if not isinstance(values, list):
        raise ValueError('values: missing or no list; expected {"values": [101.2, 100.9, null]}')
    for place, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ValueError(f"values[{place}]: {json.dumps(value)} is no number; expected a number, or null for a missing point")
    return values
