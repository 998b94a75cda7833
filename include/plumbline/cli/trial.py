"""`plumbline trial`, `replay`, `selfcheck` and `serve`: work on this machine without Airflow."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from plumbline.analysis.trial_sample import PHASE_ORDER, USABLE
from plumbline.answers.relative_criteria import resolve_criteria
from plumbline.cli.declared import inference_workload, load_declared
from plumbline.cli.exit_status import FAILED, OK
from plumbline.cli.output import (
    Json,
    announce_new_archive,
    clear_errors,
    completed,
    emit,
    err,
    fail,
    out,
    planning_archive,
    read_archive,
    recorded_later,
    require_stores,
    table,
)
from plumbline.declarations import Criterion, Declarations, Trial, installation_paths
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.embedded.connections import provide_connections
from plumbline.harness import selfcheck as instrument
from plumbline.harness.inference.checkpoint.fetched import fetch_for_trial
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.triton import Triton
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.harness.measurement import TrialFailed
from plumbline.launch.failures import Interrupted
from plumbline.launch.plan import PlanError
from plumbline.presentation.scorecard_rows import trial_verdicts
from plumbline.presentation.trials import (
    BEFORE_THE_MEASUREMENT,
    CurveTable,
    MetricLine,
    PhasePart,
    curve_tables,
    leading_lines,
    phase_parts,
)
from plumbline.results import CheckLine, ResultDocument
from plumbline.workflows import budget
from plumbline.workflows.plan_trials import plan_replay, plan_single_trial
from plumbline.workflows.run import run_directly, stopped_by_sigterm

CHECK_STYLE = {"pass": "green", "fail": "red", "not_applicable": "dim"}
_STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red", "failed": "red", "missing": "red"}
_OUTCOME = {"pass": "green", "mixed": "yellow", "fail": "red", "insufficient": "yellow"}


def show(document: ResultDocument, everything: bool = False, resolved: Mapping[str, Criterion] | None = None) -> None:
    """The verdict, the criteria and the leading metrics; with `everything` all phases, statistics and files, without the warm-up once
    something was measured after it. A trial without a leading metric shows all it has."""
    verdict = document.validity
    out.print(Text.assemble((document.trial.trial_id, "bold"), "  ", (verdict.status, _STYLE[verdict.status])))
    for reason in verdict.reasons:
        out.print(f"  {reason.code}: {reason.detail}", style=_STYLE[verdict.status])
    if verdict.status in ("degraded", "invalid"):
        out.print("  what these mean and what to do: docs/operate.md", style="dim")
    _criteria(document, everything, resolved)
    measured = {row.phase for row in document.metrics}
    left_out = "warmup" if measured.difference(BEFORE_THE_MEASUREMENT) else None
    parts, leading = phase_parts(document), () if everything else leading_lines(document)
    for limit in document.limits:
        out.print(
            f"  limit in {limit.phase}: {limit.word}; {limit.judgement.text}",
            style={"good": "", "warn": "yellow"}.get(limit.judgement.tone, "red"),
        )
    for phase, curves in curve_tables(document):
        out.print(_curves(phase, curves))
    if leading:
        out.print(_short(leading))
        more = sum(len(part.metrics) for part in parts) - len(leading)
        out.print(f"  {more} more metrics and {len(document.evidence)} files: --all", style="dim")
    else:
        if listed := [part for part in parts if part.metrics and part.phase != left_out]:
            out.print(_metrics(listed))
        _show_rest(document, left_out if left_out in measured else None)
    if document.selfcheck and (everything or any(line.status == "fail" for line in document.selfcheck)):
        out.print(compact(document.selfcheck), style="dim")
    if document.replay:
        out.print(f"again: {document.replay}", style="dim")


def _criteria(document: ResultDocument, everything: bool, resolved: Mapping[str, Criterion] | None) -> None:
    """Each criterion with its outcome; why, unless it passed."""
    criteria, status = trial_verdicts(document, resolved=resolved), document.validity.status
    if criteria and status not in USABLE:
        out.print(f"  its {len(criteria)} acceptance criteria are not judged: a trial that is {status} proves nothing", style="dim")
    elif criteria:
        judged = table("", "criterion", "", "value", "", "", right=("value",))
        for text, verdict in criteria:
            why = verdict.explanation if everything or verdict.outcome != "pass" else ""
            judged.add_row(
                text, Text(verdict.outcome, style=_OUTCOME[verdict.outcome]), verdict.value, verdict.margin, Text(why, style="dim")
            )
        out.print(judged)


def _short(leading: Sequence[tuple[str, MetricLine]]) -> Table:
    """A row for each metric, in 80 columns."""
    shown = table("", "metric", "value", "95 % interval", "beside it", right=("value", "95 % interval"))
    for phase, line in leading:
        place = "" if phase == PHASE_ORDER[0] else f" in {phase}"
        shown.add_row(f"{line.statistic} {line.name}{place}".strip(), line.value, line.interval, Text(line.notes, style="dim"))
    return shown


def _metrics(parts: Sequence[PhasePart]) -> Table:
    """A row for each phase and metric, one statistic first and the others beside it."""
    shown = table("", "phase", "metric", "", "value", "95 % interval", "n", "beside it", right=("value", "95 % interval", "n"))
    for part in parts:
        for number, line in enumerate(part.metrics):
            cells = (line.name, line.statistic, line.value, line.interval, f"{line.n:,}", Text(line.notes, style="dim"))
            shown.add_row("" if number else part.phase, *cells, end_section=number == len(part.metrics) - 1)
    return shown


def _show_rest(document: ResultDocument, left_out: str | None) -> None:
    """Lengths of requests, and the evidence."""
    for sampled in document.telemetry:
        if sampled.unit == "tokens" and sampled.phase != left_out:
            named = zip(("min", "p50", "p95", "max"), (sampled.min, sampled.p50, sampled.p95, sampled.max), strict=True)
            lengths = " · ".join(f"{name} {value:g}" for name, value in named if value is not None)
            out.print(f"  {sampled.phase} {sampled.signal}: {lengths} ({sampled.n:,} requests)", style="dim")
    if left_out:
        out.print(f"  {left_out}: not shown, nothing is judged by it; --json and the document have its rows", style="dim")
    for item in document.evidence:
        out.print(f"  {item.kind}: {item.uri}  sha256 {item.sha256[:12]}…  {item.bytes:,} B", style="dim")


def _curves(phase: str, curves: CurveTable) -> Table:
    """The curves of one phase, a column a place."""
    along, *places = curves.heads
    shown = table("", "phase", f"by {along}", "", *places, right=tuple(places))
    for name, statistic, values in curves.lines:
        shown.add_row(phase, name, statistic, *values)
    return shown


def compact(lines: Sequence[CheckLine]) -> str:
    """One line about all of them, such as `selfcheck: 7 pass, 2 not applicable`; failed ones by name."""
    count = {status: sum(line.status == status for line in lines) for status in CHECK_STYLE}
    bad = ", ".join(line.name for line in lines if line.status == "fail")
    parts = [f"{count['pass']} pass", f"{count['fail']} fail ({bad})" if bad else "", f"{count['not_applicable']} not applicable"]
    return "selfcheck: " + ", ".join(part for part in parts if part)


def selfcheck(
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="cuda: also the GPU's event timer and counter of energy (AMD's too)")
    ] = "cpu",
    as_json: Json = False,
) -> None:
    lines = instrument.run(device)
    emit(as_json, {"lines": lines}, lambda: _show(lines))
    raise typer.Exit(FAILED if any(line.status == "fail" for line in lines) else OK)


def _show(lines: Sequence[CheckLine]) -> None:
    shown = table("", "check", "", "measured", "expected", "tolerance", "reason", right=("measured", "expected", "tolerance"))
    for line in lines:
        values = (_number(line.measured, line.unit), _number(line.expected, line.unit), _number(line.tolerance, line.unit))
        shown.add_row(line.name, Text(line.status, style=CHECK_STYLE[line.status]), *values, Text(line.reason or "", style="dim"))
    out.print(shown)


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.6g} {unit}"


_READY_S, _LOOK_S = 300.0, 0.5


def serve(workload: Annotated[str, typer.Argument(help="name of a declared inference workload, such as chat-tiny-cpu")]) -> None:
    spec = inference_workload(workload)
    try:
        with stopped_by_sigterm(), tempfile.TemporaryDirectory(prefix="plumbline-serve-") as folder:
            checkpoint = None
            if isinstance(spec.model, Checkpoint):
                token = os.environ.get("HF_TOKEN") or None
                cache = installation_paths().cache / "models"
                fetched, spec = fetch_for_trial(spec, None, cache, None, (token, None), lambda text: err.print(text, style="dim"))
                checkpoint = fetched.folder
            repository = backends.write(spec, Path(folder) / "models", threads=len(os.sched_getaffinity(0)), checkpoint=checkpoint)
            err.print(f"starting Triton with the model of {spec.name}…", style="dim")
            with Triton(
                tritonserver.find_installation(),
                repository.folder,
                repository.model,
                Path(folder),
                ready_within_s=_READY_S,
                http=True,
                backend=repository.backend,
                variables=repository.variables,
            ) as triton:
                for protocol, url in (("kserve_grpc", f"grpc://{triton.address}"), ("kserve_http", f"http://{triton.http_address}")):
                    out.print(
                        f"launcher: {{kind: endpoint, url: {url}, protocol: {protocol}, model: {repository.model}, server_process: same_machine}}"
                    )
                while triton.running():
                    time.sleep(_LOOK_S)
                fail(triton.state(), FAILED)
    except (KeyboardInterrupt, Interrupted):
        err.print("stopped", style="dim")
    except TrialFailed as failure:
        fail(f"{failure.failure_class}: {failure.detail}", FAILED)


LOCAL = "local"
Everything = Annotated[bool, typer.Option("--all", help="every phase, metric, statistic and file")]


def trial(
    workload: Annotated[str, typer.Argument(help="name of a declared workload, such as gpt-tiny-cpu or training/gpt-tiny-cpu")],
    provider: Annotated[str, typer.Option(help="name of a declared provider; `local`: the largest that this machine is declared as")],
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    declared = load_declared()
    with clear_errors(PlanError):
        kind, _, name = workload.rpartition("/")
        spec = declared.workloads.get(name)
        if kind and spec is not None and spec.kind != kind:
            fail(f'"{name}" is a workload of kind {spec.kind}; expected {spec.kind}/{name}')
        planned = plan_single_trial(declared, name, _local(declared, name) if provider == LOCAL else provider)
    _run(planned, everything, as_json)


def _local(declared: Declarations, workload: str) -> str:
    """The declared part of this machine that has the most of the cores (or GPUs) that are usable now, of those that fit the workload if any."""
    parts = [p for p in declared.enabled_providers() if p.launcher.cpus_here]
    here = [p for p in parts if workload in {w.name for w in declared.workloads_for(p)}] or parts
    usable = os.sched_getaffinity(0)
    fitting = [p for p in here if usable.issuperset(p.launcher.cpus_here)] or here
    if not fitting:
        fail(f"no enabled provider has a launcher of kind local; declared: {', '.join(sorted(declared.providers))}")
    return max(fitting, key=lambda p: (p.accelerator.count, p.name)).name


def replay(
    trial_id: Annotated[str, typer.Argument(help="id of an archived trial, or how it begins", callback=completed("trial"))],
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    with read_archive() as archive:
        document = archive.document(trial_id)
        imported = archive.imported(trial_id)
    if imported is not None:
        fail(f"{trial_id} is imported from {imported.publisher}: its program is not here; see {imported.address}")
    if document is None:
        fail(f'no trial "{trial_id}" in the archive; `plumbline campaigns` lists what is there')
    with clear_errors(PlanError):
        planned = plan_replay(document.trial)
    _run(planned, everything, as_json)


def _within_budget(planned: Trial) -> None:
    """Leaves with a sentence if the month's budget of its provider, as declared now, does not carry one more trial."""
    provider = load_declared().providers.get(planned.provider.name)
    if provider is None or provider.budget is None:
        return
    with planning_archive() as archive:
        done = budget.apply_budget(archive, provider, [planned], datetime.now(timezone.utc))
    if not done.kept:
        fail(f"{done}. To go on: {budget.budget_remedy(provider)}\nnothing was started")


def _run(planned: Trial, everything: bool, as_json: bool) -> None:
    _within_budget(planned)
    announce_new_archive()
    require_stores()
    launcher = planned.provider.launcher
    if launcher.hosted and launcher.connections:
        # What Airflow does not have is told by the launcher, in the trial's record.
        with clear_errors(RuntimeError):
            provide_connections(launcher.connections)
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

        with recorded_later(planned.campaign_id):
            done = run_directly(planned, follow)

    def tell() -> None:
        with read_archive() as archive:
            resolved = resolve_criteria(archive, planned.series_key, planned.campaign_id, planned.workload)
        show(done.document, everything, resolved)
        for why in done.rejected:
            out.print(f"rejected by the archive: {why}", style="red")

    emit(as_json, done.document, tell)
    raise typer.Exit(FAILED if done.document.validity.status == "failed" or done.rejected else OK)
