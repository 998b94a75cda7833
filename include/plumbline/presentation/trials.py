"""Trials as rows: the attempts of a campaign, and one attempt in full, with GPU utilisation beside what the GPUs achieved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.trial_sample import PHASE_ORDER
from plumbline.archive import TrialView
from plumbline.declarations import Criterion
from plumbline.metrics import PHASES, leading_names, metric_of
from plumbline.metrics.formatting import common_scale, format_name, format_percent, format_quantity, join_words
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.trial import curve_charts, event_clock, replica_chart, timeline_chart
from plumbline.presentation.scorecard_rows import CriterionCell, trial_verdicts
from plumbline.results import Event, Evidence, MetricRow, PodRecord, ResultDocument, Telemetry
from plumbline.results.launch_record import launch_metrics
from plumbline.results.published import PublishedResult
from plumbline.results.signing import Verification, verify
from plumbline.words.programs import declared_numbers, program_text

_UTILISATION = re.compile(r"(?:server_)?gpu\d*_utilization")
_FLOPS = (("model_flops", "median", "model_flops_utilization"), ("prefill_flops", "value", "prefill_flops_utilization"))


@dataclass(frozen=True)
class AchievedRate:
    """`value` in SI units, None if not measured; `beside`: its share of the probed limit."""

    value: float | None
    text: str
    beside: str = ""


@dataclass(frozen=True)
class GpuUsage:
    """The GPUs of one phase. `utilisation`: mean over the GPUs, None where it was not sampled or is withheld; then `why` says which.

    `missing`: of FLOP/s, bandwidth and power, what was not measured.
    """

    phase: str
    gpus: int
    utilisation: AchievedRate
    flops: AchievedRate
    bandwidth: AchievedRate
    power: AchievedRate
    missing: tuple[str, ...]
    why: str = ""


def is_gpu_utilisation(signal: str) -> bool:
    """Whether a telemetry signal is a GPU's utilisation, which no table shows by itself."""
    return _UTILISATION.fullmatch(signal) is not None


def gpu_usages(document: ResultDocument) -> tuple[GpuUsage, ...]:
    """A row for each phase in which GPUs were sampled, in the phases' order; empty where no GPU was seen."""
    phases = {item.phase for item in document.telemetry if item.signal.startswith("gpu") or is_gpu_utilisation(item.signal)}
    phases -= {
        item.phase for item in document.telemetry if item.signal == "gpu_watch_overhead" and not _gpus(document.telemetry, item.phase)
    }
    return tuple(_phase_usage(document, phase) for phase in PHASES if phase in phases)


def _phase_usage(document: ResultDocument, phase: str) -> GpuUsage:
    sampled = [item for item in document.telemetry if item.phase == phase and is_gpu_utilisation(item.signal)]
    # The server samples the same GPUs as the harness.
    busy = [item.mean for item in sampled if item.signal.startswith("gpu")] or [item.mean for item in sampled]
    flops, bandwidth, power = _flops(document, phase), _bandwidth(document, phase), _power(document, phase)
    rates = (("achieved FLOP/s", flops), ("memory bandwidth", bandwidth), ("power", power))
    missing = tuple(name for name, rate in rates if rate.value is None)
    utilisation, reason = AchievedRate(None, "–"), ""
    if not busy:
        reason = "utilisation not sampled"
    elif power.value is None or (flops.value is None and bandwidth.value is None):
        reason = f"utilisation hidden without {join_words(missing)}: by itself it does not show performance"
    else:
        mean = sum(busy) / len(busy)
        utilisation = AchievedRate(mean, format_percent(mean), "of the time a kernel ran")
    return GpuUsage(format_name(phase), _gpus(document.telemetry, phase), utilisation, flops, bandwidth, power, missing, reason)


def _gpus(telemetry: Sequence[Telemetry], phase: str) -> int:
    return len({m[0] for item in telemetry if item.phase == phase and (m := re.match(r"gpu\d+(?=_)", item.signal))})


def _flops(document: ResultDocument, phase: str) -> AchievedRate:
    for name, statistic, share_name in _FLOPS:
        if (rate := document.value(name, statistic, phase)) is not None:
            share = document.value(share_name, statistic, phase)
            in_prefill = " in prefill" if name == "prefill_flops" else ""
            beside = "" if share is None else f"{format_percent(share)} of the probed matmul rate"
            return AchievedRate(rate, format_quantity(rate, "FLOP/s") + in_prefill, beside)
    return AchievedRate(None, "not measured")


def _bandwidth(document: ResultDocument, phase: str) -> AchievedRate:
    """Bytes a second that decoding read: the measured share of the probed bandwidth, times that of all the GPUs that hold the model."""
    share = document.value("model_bandwidth_utilization", "value", phase)
    probed = document.value("memory_bandwidth", "max", "environment")
    if share is None or probed is None:
        return AchievedRate(None, "not measured")
    workload = document.trial.workload
    split = workload.weight_shards * workload.replicas_on(document.trial.provider.accelerator.count)
    value = share * probed * split
    return AchievedRate(value, f"{format_quantity(value, 'bytes/s')} in decoding", f"{format_percent(share)} of the probed bandwidth")


def _power(document: ResultDocument, phase: str) -> AchievedRate:
    """All GPUs together: by their energy counters, else by the samples of each. Those of a job on several nodes are node 0's alone."""
    row = next((r for r in document.metrics if (r.metric, r.statistic, r.phase) == ("gpu_power", "mean", phase)), None)
    if row is not None:
        return AchievedRate(row.value, "not measured" if row.value is None else format_quantity(row.value, "W"), row.reason or "")
    sampled = [item.mean for item in document.telemetry if item.phase == phase and re.fullmatch(r"gpu\d+_power", item.signal)]
    if not sampled or len(sampled) < _gpus(document.telemetry, phase):
        return AchievedRate(None, "not measured")
    return AchievedRate(sum(sampled), format_quantity(sum(sampled), "W"))


@dataclass(frozen=True)
class AttemptRow:
    """One attempt. `document`: its path below the result store, empty without a result."""

    trial_id: str
    attempt: int
    provider: str
    kind: str
    status: str
    reasons: tuple[str, ...]
    document: str
    checksum: str
    evidence: tuple[Evidence, ...]
    replay: str


def attempt_rows(campaign: CampaignData) -> tuple[AttemptRow, ...]:
    """Every attempt of the campaign by trial, planned trials without a result included."""
    rows = []
    for d in campaign.documents:
        trial = d.trial
        quality = campaign.quality.get((trial.trial_id, trial.attempt))
        reasons = tuple(r.detail for r in d.validity.reasons) + (quality.reasons if quality else ())
        rejected = quality is not None and quality.action == "reject"
        rows.append(
            AttemptRow(
                trial_id=trial.trial_id,
                attempt=trial.attempt,
                provider=trial.provider.name,
                kind=trial.workload.kind,
                status="rejected" if rejected else d.validity.status,
                reasons=reasons,
                document=f"{trial.campaign_id}/{trial.trial_id}/attempt-{trial.attempt}/collected.json",
                checksum=d.checksum,
                evidence=d.evidence,
                replay=d.replay or "",
            )
        )
    recorded_ids = {d.trial.trial_id for d in campaign.documents}
    rows += [
        AttemptRow(t.trial_id, t.attempt, t.provider.name, t.workload.kind, "missing", ("planned, no result",), "", "", (), "")
        for t in campaign.planned
        if t.trial_id not in recorded_ids
    ]
    return tuple(sorted(rows, key=lambda r: (r.kind != "training", r.trial_id, r.attempt)))


@dataclass(frozen=True)
class MetricLine:
    """A metric by its leading statistic; `notes`: its other statistics, why it is absent and its method."""

    name: str
    meaning: str
    statistic: str
    value: str
    interval: str
    n: int
    notes: str


@dataclass(frozen=True)
class CurveTable:
    """A phase's curves along one quantity. `heads`: the quantity and its points; `lines`: (metric, statistic, values)."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PhasePart:
    """The metrics of one phase. `stages`: (stage, mean of an occurrence, share of the phase's stages)."""

    phase: str
    metrics: tuple[MetricLine, ...]
    stages: tuple[tuple[str, str, str], ...]
    curves: CurveTable | None = None


@dataclass(frozen=True)
class SignalLine:
    """One sampled signal of one phase, its values in one unit. `quantiles`: those that are known."""

    name: str
    phase: str
    mean: str
    low: str
    high: str
    quantiles: str = ""


@dataclass(frozen=True)
class TimelineRow:
    """An event; `at`: time since the first one."""

    name: str
    clock: str
    at: str
    utc: str


@dataclass(frozen=True)
class PodPart:
    """One pod of a launch. `notices`: (time, reason, count, message) of the cluster's events."""

    name: str
    node: str | None
    ended: str
    facts: tuple[tuple[str, str], ...]
    moments: tuple[TimelineRow, ...]
    notices: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class TrialPage:
    """One attempt in full. `program`: what a workload of a team's own ran; `numbers`: those that it declares. `leading`: (phase, metric). `attempts`: every archived attempt of its trial; `expired`: see Archive.expired_files."""

    document: ResultDocument
    view: TrialView
    attempts: tuple[TrialView, ...]
    leading: tuple[tuple[str, MetricLine], ...]
    phases: tuple[PhasePart, ...]
    moments: tuple[TimelineRow, ...]
    pods: tuple[PodPart, ...]
    criteria: tuple[tuple[str, CriterionCell], ...]
    signals: tuple[SignalLine, ...]
    curves: tuple[Chart, ...]
    expired: Mapping[str, tuple[datetime, str]]
    timeline: Chart | None
    usages: tuple[GpuUsage, ...]
    signature: Verification
    program: str
    numbers: tuple[str, ...]


def trial_page(
    document: ResultDocument,
    attempts: tuple[TrialView, ...],
    expired: Mapping[str, tuple[datetime, str]] | None = None,
    keys: Mapping[int, str] | None = None,
    resolved: Mapping[str, Criterion] | None = None,
) -> TrialPage:
    """`attempts`: every archived attempt, this one among them. `keys`: see Archive.signing_keys. `resolved`: its relative criteria."""
    view = next(a for a in attempts if a.attempt == document.trial.attempt)
    events = (*(document.launch.events if document.launch else ()), *document.timeline)
    return TrialPage(
        document=document,
        view=view,
        attempts=attempts,
        leading=leading_lines(document),
        phases=phase_parts(document),
        moments=tuple(_timeline_rows(events, document.simulated)),
        pods=tuple(_pod(pod) for pod in document.launch.pods) if document.launch else (),
        criteria=trial_verdicts(document, CampaignQuality(view.quality_action, tuple(r.detail for r in view.quality_reasons)), resolved),
        signals=tuple(_signal(item) for item in document.telemetry if not is_gpu_utilisation(item.signal)),
        curves=(*curve_charts(document), *filter(None, [replica_chart(document)])),
        expired=expired or {},
        timeline=timeline_chart(document),
        usages=gpu_usages(document),
        signature=verify(document, keys or {}),
        program=program_text(document.trial.workload),
        numbers=declared_numbers(document.trial.workload),
    )


BEFORE_THE_MEASUREMENT = ("environment", "cold_start", "warmup")


def _rows_by_metric(document: ResultDocument) -> dict[tuple[str, str], list[MetricRow]]:
    """Rows by phase and metric."""
    rows: dict[tuple[str, str], list[MetricRow]] = {}
    launched = launch_metrics(document.launch, document.timeline) if document.launch else ()
    for row in (*document.metrics, *(row for row in launched if row.phase == "scale_out")):
        rows.setdefault((row.phase, row.metric), []).append(row)
    return rows


def leading_lines(document: ResultDocument) -> tuple[tuple[str, MetricLine], ...]:
    """(phase, line) of each leading metric with its p99, in the first phase that has it; empty for a trial without numbers."""
    rows = _rows_by_metric(document)
    leading: dict[tuple[str, str], list[MetricRow]] = {}
    for metric in (*document.trial.workload.own_metrics, *leading_names("trial")):
        phases = (p for p in PHASE_ORDER if any(r.value is not None for r in rows.get((p, metric), ())))
        if phase := next(phases, None):
            statistics = (metric_of(rows[phase, metric][0]).statistic, "p99")
            leading[phase, metric] = [r for r in rows[phase, metric] if r.statistic in statistics] or rows[phase, metric]
    if all(phase in BEFORE_THE_MEASUREMENT for phase, _ in leading):
        return ()
    return tuple((format_name(phase), _metric_line(own)) for (phase, _), own in leading.items())


def published_metrics(result: PublishedResult) -> tuple[tuple[str, str], ...]:
    """An imported result's metrics: (name with statistic, value with unit)."""
    return tuple(
        (
            format_name(m.metric) if m.statistic == "value" else f"{format_name(m.metric)} {m.statistic}",
            common_scale(m.unit, [m.value], m.metric).text(m.value),
        )
        for m in result.metrics
    )


def phase_parts(document: ResultDocument) -> tuple[PhasePart, ...]:
    """Every phase that measured something, in the phases' order."""
    rows = _rows_by_metric(document)
    measured = {phase for phase, _ in rows} | {curve.phase for curve in document.curves if curve.along == "input_tokens"}
    return tuple(
        PhasePart(
            format_name(phase),
            tuple(_metric_line(own) for (of, _), own in rows.items() if of == phase),
            _stages(document, phase),
            _curves(document, phase, "offered_rate" if phase == "scale_out" else "input_tokens"),
        )
        for phase in PHASES
        if phase in measured
    )


def _metric_line(rows: list[MetricRow]) -> MetricLine:
    definition = metric_of(rows[0])
    lead = next((row for row in rows if row.statistic == definition.statistic), rows[0])
    # A value of 0 takes the scale of its interval.
    scale = common_scale(lead.unit, [lead.value] if lead.value else [lead.ci_low, lead.ci_high], lead.metric)
    other_rows = [row for row in rows if row is not lead and row.value is not None]
    notes = [f"{row.statistic} {common_scale(row.unit, [row.value], row.metric).text(row.value)}" for row in other_rows]
    return MetricLine(
        name=format_name(lead.metric),
        meaning=definition.description,
        statistic="" if lead.statistic == "value" else lead.statistic,
        value=scale.text(lead.value),
        interval=scale.interval(lead.ci_low, lead.ci_high),
        n=lead.n,
        notes=" · ".join([*notes, *filter(None, [lead.reason, lead.method])]),
    )


def _signal(item: Telemetry) -> SignalLine:
    scale = common_scale(item.unit, [item.mean, item.max])
    quantiles = " · ".join(f"{name} {scale.text(value)}" for name, value in (("p50", item.p50), ("p95", item.p95)) if value is not None)
    mean, low, high = (scale.text(value) for value in (item.mean, item.min, item.max))
    return SignalLine(format_name(item.signal), format_name(item.phase), mean, low, high, quantiles)


def _stages(document: ResultDocument, phase: str) -> tuple[tuple[str, str, str], ...]:
    stages = [stage for stage in document.stages if stage.phase == phase and stage.n]
    total = sum(stage.total_s for stage in stages)
    means = [stage.total_s / stage.n for stage in stages]
    return tuple(
        (format_name(stage.stage), common_scale("s", [mean]).text(mean), format_percent(stage.total_s / total) if total else "")
        for stage, mean in zip(stages, means, strict=True)
    )


def curve_tables(document: ResultDocument) -> tuple[tuple[str, CurveTable], ...]:
    """(phase, its curves) by prompt length, rate, rank or message size; along steps and time there are too many places for a table."""
    alongs = ("input_tokens", "offered_rate", "rank", "message_bytes")
    keys = dict.fromkeys((curve.phase, curve.along) for curve in document.curves if curve.along in alongs)
    return tuple((format_name(phase), table) for phase, along in keys if (table := _curves(document, phase, along)) is not None)


def _curves(document: ResultDocument, phase: str, along: str) -> CurveTable | None:
    curves = [curve for curve in document.curves if curve.phase == phase and curve.along == along]
    if not curves:
        return None
    places = sorted({point.at for curve in curves for point in curve.points})
    lines = []
    for curve in curves:
        values = {point.at: point.value for point in curve.points}
        scale = common_scale(curve.unit, values.values(), curve.metric)
        statistic = "" if curve.statistic == "value" else curve.statistic
        lines.append((format_name(curve.metric), statistic, tuple(scale.text(values.get(at)) for at in places)))
    return CurveTable((format_name(curves[0].along), *(f"{at:,.10g}" for at in places)), tuple(lines))


def _pod(pod: PodRecord) -> PodPart:
    exit_status = f"exit status {pod.exit_code}" if pod.exit_code is not None else ""
    return PodPart(
        name=pod.name,
        node=pod.node,
        ended=", ".join(part for part in (pod.reason, exit_status) if part) or "unknown",
        facts=tuple((key, "–" if value is None else str(value)) for key, value in sorted(pod.facts.items())),
        moments=tuple(_timeline_rows(pod.events)),
        notices=tuple((n.utc.strftime("%H:%M:%S"), n.reason, f"{n.count}×" if n.count > 1 else "", n.message) for n in pod.notices),
    )


def _timeline_rows(events: tuple[Event, ...], simulated: bool = False) -> list[TimelineRow]:
    """Events by the wall clock, the request first: on a cluster's clock of whole seconds, later events may seem to precede it."""
    if not events:
        return []
    ordered = sorted(events, key=lambda e: (e.name != "requested", e.utc))
    after = event_clock(ordered, simulated)
    first = after(ordered[0])
    return [TimelineRow(format_name(e.name), e.clock, f"{max(after(e) - first, 0.0):.2f} s", e.utc.strftime("%H:%M:%S")) for e in ordered]
