"""`plumbline trial` and `plumbline replay`: one trial without Airflow, the loop of someone who writes a workload."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from plumbline.cli.output import FAILED, OK, Json, clear_errors, emit, err, fail, out, table
from plumbline.cli.selfcheck import compact
from plumbline.declarations import METRICS, DeclarationError, Declarations, EndpointLauncher, LocalLauncher, Trial, load
from plumbline.declarations.reading import reading
from plumbline.harness.progress import ProgressLine
from plumbline.launch.plan import PlanError
from plumbline.orchestration import budget
from plumbline.orchestration.connections import adopt
from plumbline.orchestration.direct import planned_trial, replayed, run_directly
from plumbline.reports.criteria import trial_verdicts
from plumbline.results import Curve, MetricRow, ResultDocument
from plumbline.scorecards.inputs import USABLE

LOCAL = "local"
_STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red", "failed": "red", "missing": "red"}
_OUTCOME = {"pass": "green", "mixed": "yellow", "fail": "red", "insufficient": "yellow"}
_BEFORE_THE_MEASUREMENT = ("environment", "cold_start", "warmup")


def trial(
    workload: Annotated[str, typer.Argument(help="name of a declared workload, such as gpt-tiny-cpu or training/gpt-tiny-cpu")],
    provider: Annotated[str, typer.Option(help="name of a declared provider; `local`: the largest that this machine is declared as")],
    as_json: Json = False,
) -> None:
    """Run one trial of WORKLOAD on a provider, now and without Airflow, and record it."""
    with clear_errors(DeclarationError, PlanError):
        declared = load()
        kind, _, name = workload.rpartition("/")
        found = declared.workloads.get(name)
        if kind and found is not None and found.kind != kind:
            fail(f'"{name}" is a workload of kind {found.kind}; expected {found.kind}/{name}')
        planned = planned_trial(declared, name, _local(declared, name) if provider == LOCAL else provider)
    _run(planned, as_json)


def _local(declared: Declarations, workload: str) -> str:
    """The declared part of this machine that has the most of the cores (or GPUs) that are usable now, of those that fit the workload if any."""
    parts = [p for p in declared.enabled_providers() if isinstance(p.launcher, LocalLauncher)]
    here = [p for p in parts if workload in {w.name for w in declared.workloads_for(p)}] or parts
    usable = os.sched_getaffinity(0)
    fitting = [p for p in here if isinstance(p.launcher, LocalLauncher) and usable.issuperset(p.launcher.cpus)] or here
    if not fitting:
        fail(f"no enabled provider has a launcher of kind local; declared: {', '.join(sorted(declared.providers))}")
    return max(fitting, key=lambda p: (p.accelerator.count, p.name)).name


def replay(
    trial_id: Annotated[str, typer.Argument(help="id of an archived trial")],
    as_json: Json = False,
) -> None:
    """Run an archived trial again from its own record: same specification, criteria, seeds and arrival schedule."""
    from plumbline.cli.opening import open_archive

    with open_archive() as archive:
        document = archive.document(trial_id)
        imported = archive.imported(trial_id)
    if imported is not None:
        fail(f"{trial_id} is imported from {imported.publisher}: nobody here has what it ran; see {imported.url}")
    if document is None:
        fail(f'no trial "{trial_id}" in the archive; `plumbline campaigns` lists what is there')
    _run(replayed(document.trial), as_json)


def _within_budget(planned: Trial) -> None:
    """Leaves with a sentence if the month's budget of its provider, as declared now, does not carry one more trial."""
    from plumbline.cli.opening import open_archive

    with clear_errors(DeclarationError):
        provider = load().providers.get(planned.provider.name)
    if provider is None or provider.budget is None:
        return
    with open_archive() as archive:
        done = budget.cut(archive, provider, [planned], datetime.now(timezone.utc))
    if not done.kept:
        fail(f"{done}. To go on: {budget.how_to_go_on(provider)}\nnothing was started")


def _run(planned: Trial, as_json: bool) -> None:
    _within_budget(planned)
    launcher = planned.provider.launcher
    if isinstance(launcher, EndpointLauncher) and launcher.connection is not None:
        # What Airflow does not have is told by the launcher, in the trial's record.
        with clear_errors(RuntimeError):
            adopt([launcher.connection])
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(planned.trial_id, total=1.0, note="starting")

        def follow(line: ProgressLine) -> None:
            bar.update(task, completed=line.fraction, note=f"{line.phase} {line.note}")

        document = run_directly(planned, follow)
    emit(as_json, document, lambda: show(document))
    raise typer.Exit(FAILED if document.validity.status == "failed" else OK)


def show(document: ResultDocument) -> None:
    """A trial's verdict, its criteria and its numbers as tables. The warm-up's are left out once there are those it was made for."""
    verdict = document.validity
    out.print(Text.assemble((document.trial.trial_id, "bold"), "  ", (verdict.status, _STYLE[verdict.status])), highlight=False)
    for reason in verdict.reasons:
        out.print(f"  {reason.code}: {reason.detail}", style=_STYLE[verdict.status], markup=False, highlight=False)
    if verdict.status in ("degraded", "invalid"):
        out.print("  what these mean and what to do: docs/operate.md", style="dim", highlight=False)
    criteria = trial_verdicts(document)
    if criteria and verdict.status not in USABLE:
        out.print(f"  its {len(criteria)} acceptance criteria are not judged: a trial that is {verdict.status} proves nothing", style="dim")
    elif criteria:
        judged = table("", "criterion", "", "value", "", "", right=("value",))
        for text, found in criteria:
            judged.add_row(
                text, Text(found.outcome, style=_OUTCOME[found.outcome]), found.value, found.margin, Text(found.explanation, style="dim")
            )
        out.print(judged)
    measured = _by_metric(document)
    known = {phase for phase, _ in measured}
    left_out = "warmup" if known.difference(_BEFORE_THE_MEASUREMENT) else None
    shown = table("", "phase", "metric", "", "value", "95 % interval", "n", "beside it", right=("value", "95 % interval", "n"))
    last = ""
    for (phase, metric), rows in measured.items():
        if phase == left_out:
            continue
        if last not in ("", phase):
            shown.add_section()
        lead = next((r for r in rows if r.statistic == METRICS[metric].statistic), rows[0])
        interval = "" if lead.ci_low is None else f"{reading(lead.ci_low, lead.unit)} … {reading(lead.ci_high, lead.unit)}"
        others = [f"{r.statistic} {reading(r.value, r.unit)}" for r in rows if r is not lead and r.value is not None]
        beside = Text(" · ".join([*others, *filter(None, [lead.reason, lead.method])]), style="dim")
        statistic = "" if lead.statistic == "value" else lead.statistic
        name = phase if phase != last else ""
        shown.add_row(name, metric, statistic, reading(lead.value, lead.unit), interval, f"{lead.n:,}", beside)
        last = phase
    if measured:
        out.print(shown)
    # Along steps and time there are too many places for a table: the trial's page draws them.
    listed = [curve for curve in document.curves if curve.along in ("input_tokens", "rank", "message_bytes")]
    for phase in dict.fromkeys(curve.phase for curve in listed):
        out.print(_curves([curve for curve in listed if curve.phase == phase]))
    if left_out in known:
        out.print("  warmup: not shown, because nothing is judged by it; its rows stand in the document, as with --json", style="dim")
    for item in document.evidence:
        out.print(f"  {item.kind}: {item.uri}  sha256 {item.sha256[:12]}…  {item.bytes:,} B", style="dim", highlight=False)
    if document.selfcheck:
        out.print(compact(document.selfcheck), style="dim", highlight=False, markup=False)
    if document.replay:
        out.print(f"again: {document.replay}", style="dim", highlight=False)


def _curves(curves: list[Curve]) -> Table:
    """The curves of one phase, a column a place."""
    places = sorted({point.at for curve in curves for point in curve.points})
    heads = tuple(f"{at:,.0f}" for at in places)
    shown = table("", "phase", f"by {curves[0].along}", "", *heads, right=heads)
    for curve in curves:
        values = {point.at: point.value for point in curve.points}
        statistic = "" if curve.statistic == "value" else curve.statistic
        shown.add_row(curve.phase, curve.metric, statistic, *(reading(values.get(at), curve.unit) for at in places))
    return shown


def _by_metric(document: ResultDocument) -> dict[tuple[str, str], list[MetricRow]]:
    found: dict[tuple[str, str], list[MetricRow]] = {}
    for row in document.metrics:
        found.setdefault((row.phase, row.metric), []).append(row)
    return found
