"""One trial's result as a command prints it: verdict, criteria, leading metrics; everything with `--all`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from plumbline.analysis.trial_sample import PHASE_ORDER, USABLE
from plumbline.cli.output import out, table
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_quantity
from plumbline.presentation.scorecard_rows import trial_verdicts
from plumbline.presentation.trials import BEFORE_THE_MEASUREMENT, RowsByMetric, leading_metrics, rows_by_metric
from plumbline.results import CheckLine, Curve, MetricRow, ResultDocument

CHECK_STYLE = {"pass": "green", "fail": "red", "not_applicable": "dim"}
_STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red", "failed": "red", "missing": "red"}
_OUTCOME = {"pass": "green", "mixed": "yellow", "fail": "red", "insufficient": "yellow"}


def show(document: ResultDocument, everything: bool = False) -> None:
    """The verdict, the criteria and the leading metrics; with `everything` all phases, statistics and files, without the warm-up once
    something was measured after it. A trial without a leading metric shows all it has."""
    verdict = document.validity
    out.print(Text.assemble((document.trial.trial_id, "bold"), "  ", (verdict.status, _STYLE[verdict.status])))
    for reason in verdict.reasons:
        out.print(f"  {reason.code}: {reason.detail}", style=_STYLE[verdict.status])
    if verdict.status in ("degraded", "invalid"):
        out.print("  what these mean and what to do: docs/operate.md", style="dim")
    _criteria(document, everything)
    measured = rows_by_metric(document)
    phases = {phase for phase, _ in measured}
    left_out = "warmup" if phases.difference(BEFORE_THE_MEASUREMENT) else None
    leading = {} if everything else leading_metrics(measured)
    # Along steps and time there are too many places for a table: the trial's page draws them.
    listed = [curve for curve in document.curves if curve.along in ("input_tokens", "rank", "message_bytes")]
    for phase in dict.fromkeys(curve.phase for curve in listed):
        out.print(_curves([curve for curve in listed if curve.phase == phase]))
    if leading:
        out.print(_short(leading))
        out.print(f"  {len(measured) - len(leading)} more metrics and {len(document.evidence)} files: --all", style="dim")
    else:
        if rows := {key: rows for key, rows in measured.items() if key[0] != left_out}:
            out.print(_metrics(rows))
        _rest(document, left_out if left_out in phases else None)
    if document.selfcheck and (everything or any(line.status == "fail" for line in document.selfcheck)):
        out.print(compact(document.selfcheck), style="dim")
    if document.replay:
        out.print(f"again: {document.replay}", style="dim")


def _criteria(document: ResultDocument, everything: bool) -> None:
    """Each criterion with its outcome; why, unless it passed."""
    criteria, status = trial_verdicts(document), document.validity.status
    if criteria and status not in USABLE:
        out.print(f"  its {len(criteria)} acceptance criteria are not judged: a trial that is {status} proves nothing", style="dim")
    elif criteria:
        judged = table("", "criterion", "", "value", "", "", right=("value",))
        for text, found in criteria:
            why = found.explanation if everything or found.outcome != "pass" else ""
            judged.add_row(text, Text(found.outcome, style=_OUTCOME[found.outcome]), found.value, found.margin, Text(why, style="dim"))
        out.print(judged)


def _short(leading: RowsByMetric) -> Table:
    """A row for each metric, in 80 columns."""
    shown = table("", "metric", "value", "95 % interval", "p99", right=("value", "95 % interval", "p99"))
    for (phase, metric), rows in leading.items():
        lead = next((r for r in rows if r.statistic == METRICS[metric].statistic), rows[0])
        tail = next((format_quantity(r.value, r.unit) for r in rows if r.statistic == "p99"), "")
        name = "" if lead.statistic == "value" else f"{lead.statistic} "
        place = "" if phase == PHASE_ORDER[0] else f" in {phase}"
        shown.add_row(f"{name}{metric}{place}", format_quantity(lead.value, lead.unit), _interval(lead), tail)
    return shown


def _interval(row: MetricRow) -> str:
    return "" if row.ci_low is None else f"{format_quantity(row.ci_low, row.unit)} … {format_quantity(row.ci_high, row.unit)}"


def _metrics(measured: RowsByMetric) -> Table:
    """A row for each phase and metric, one statistic first and the others beside it."""
    shown = table("", "phase", "metric", "", "value", "95 % interval", "n", "beside it", right=("value", "95 % interval", "n"))
    last = ""
    for (phase, metric), rows in measured.items():
        if last not in ("", phase):
            shown.add_section()
        lead = next((r for r in rows if r.statistic == METRICS[metric].statistic), rows[0])
        others = [f"{r.statistic} {format_quantity(r.value, r.unit)}" for r in rows if r is not lead and r.value is not None]
        beside = Text(" · ".join([*others, *filter(None, [lead.reason, lead.method])]), style="dim")
        statistic = "" if lead.statistic == "value" else lead.statistic
        name = phase if phase != last else ""
        shown.add_row(name, metric, statistic, format_quantity(lead.value, lead.unit), _interval(lead), f"{lead.n:,}", beside)
        last = phase
    return shown


def _rest(document: ResultDocument, left_out: str | None) -> None:
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


def _curves(curves: list[Curve]) -> Table:
    """The curves of one phase, a column a place."""
    places = sorted({point.at for curve in curves for point in curve.points})
    heads = tuple(f"{at:,.0f}" for at in places)
    shown = table("", "phase", f"by {curves[0].along}", "", *heads, right=heads)
    for curve in curves:
        values = {point.at: point.value for point in curve.points}
        statistic = "" if curve.statistic == "value" else curve.statistic
        shown.add_row(curve.phase, curve.metric, statistic, *(format_quantity(values.get(at), curve.unit) for at in places))
    return shown


def compact(lines: Sequence[CheckLine]) -> str:
    """One line about all of them, such as `selfcheck: 7 pass, 2 not applicable`; failed ones by name."""
    count = {status: sum(line.status == status for line in lines) for status in CHECK_STYLE}
    bad = ", ".join(line.name for line in lines if line.status == "fail")
    parts = [f"{count['pass']} pass", f"{count['fail']} fail ({bad})" if bad else "", f"{count['not_applicable']} not applicable"]
    return "selfcheck: " + ", ".join(part for part in parts if part)
