"""What the page of one trial shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plumbline.archive import TrialView
from plumbline.dashboard.gantt import clock, gantt
from plumbline.dashboard.sketch import Sketch, sketches
from plumbline.declarations import METRICS
from plumbline.declarations.phases import PHASES
from plumbline.reports.chart import Chart
from plumbline.reports.content import Quality
from plumbline.reports.criteria import Verdict, trial_verdicts
from plumbline.reports.figures import scale, words
from plumbline.reports.utilisation import Usage, is_utilisation, usages
from plumbline.results import Event, MetricRow, PodRecord, ResultDocument, Telemetry
from plumbline.results.outside import OutsideResult
from plumbline.results.signing import Verification, verify


@dataclass(frozen=True)
class MetricLine:
    """A metric by its leading statistic; `beside` has the others in words, why it is absent and how it was measured, `meaning` the catalogue's explanation of it."""

    name: str
    meaning: str
    statistic: str
    value: str
    interval: str
    n: int
    beside: str


@dataclass(frozen=True)
class CurveTable:
    """A phase's curves by prompt length: `heads` what they run along and its places, each of `lines` a metric, its statistic and its values there."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PhasePart:
    """What was measured in one phase. `stages`: where its time went, as (stage, mean of an occurrence, share of the phase's stages)."""

    phase: str
    opened: bool
    metrics: tuple[MetricLine, ...]
    stages: tuple[tuple[str, str, str], ...]
    curves: CurveTable | None = None


@dataclass(frozen=True)
class SignalLine:
    """What was sampled beside one phase: mean, least and most of one signal, in one unit."""

    name: str
    phase: str
    mean: str
    low: str
    high: str


@dataclass(frozen=True)
class Moment:
    """An event `at` so long after the first one."""

    name: str
    clock: str
    at: str
    utc: str


@dataclass(frozen=True)
class PodPart:
    """One pod of a launch on a cluster: where it ran, how it came up and ended, and what the cluster said meanwhile."""

    name: str
    node: str | None
    ended: str
    facts: tuple[tuple[str, str], ...]
    moments: tuple[Moment, ...]
    notices: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class TrialPage:
    document: ResultDocument
    view: TrialView
    attempts: tuple[TrialView, ...]
    phases: tuple[PhasePart, ...]
    moments: tuple[Moment, ...]
    pods: tuple[PodPart, ...] = ()
    criteria: tuple[tuple[str, Verdict], ...] = ()
    signals: tuple[SignalLine, ...] = ()
    sketches: tuple[Sketch, ...] = ()
    expired: Mapping[str, tuple[datetime, str]] = field(default_factory=dict)
    timeline: Chart | None = None
    usages: tuple[Usage, ...] = ()
    signature: Verification | None = None


def trial_page(
    document: ResultDocument,
    attempts: tuple[TrialView, ...],
    expired: Mapping[str, tuple[datetime, str]] | None = None,
    keys: Mapping[int, str] | None = None,
) -> TrialPage:
    """One attempt in full. `attempts`: every archived attempt of the trial, this one among them. `expired`: see Archive.expired_files;
    `keys`: see Archive.signing_keys."""
    view = next(a for a in attempts if a.attempt == document.trial.attempt)
    events = (*(document.launch.events if document.launch else ()), *document.timeline)
    pods = tuple(_pod(pod) for pod in document.launch.pods) if document.launch else ()
    measured = {row.phase for row in document.metrics} | {curve.phase for curve in document.curves if curve.along == "input_tokens"}
    phases = tuple(_phase(document, phase) for phase in PHASES if phase in measured)
    quality = Quality(view.quality_action, tuple(r.detail for r in view.quality_reasons))
    criteria = trial_verdicts(document, quality)
    # A GPU's utilisation stands beside what it achieved, and nowhere alone.
    signals = tuple(_signal(item) for item in document.telemetry if not is_utilisation(item.signal))
    return TrialPage(
        document,
        view,
        attempts,
        phases,
        tuple(_moments(events, document.simulated)),
        pods,
        criteria,
        signals,
        sketches(document),
        expired or {},
        gantt(document),
        usages(document),
        verify(document, keys or {}),
    )


def numbers_of(result: OutsideResult) -> tuple[tuple[str, str], ...]:
    """What an imported result says, in words and with units."""
    return tuple((words(m.metric), scale(m.unit, [m.value], m.metric).text(m.value)) for m in result.metrics)


def _phase(document: ResultDocument, phase: str) -> PhasePart:
    rows: dict[str, list[MetricRow]] = {}
    for row in document.metrics:
        if row.phase == phase:
            rows.setdefault(row.metric, []).append(row)
    # A warm-up is kept and read by nobody who has no doubts.
    return PhasePart(
        words(phase),
        phase != "warmup",
        tuple(_line(several) for several in rows.values()),
        _stages(document, phase),
        _curves(document, phase),
    )


def _line(rows: list[MetricRow]) -> MetricLine:
    lead = next((row for row in rows if row.statistic == METRICS[row.metric].statistic), rows[0])
    # Nothing of many is 0 %, and its interval is not.
    shown = scale(lead.unit, [lead.value] if lead.value else [lead.ci_low, lead.ci_high], lead.metric)
    interval = f"{shown.number(lead.ci_low)} … {shown.number(lead.ci_high)}" if lead.ci_low is not None else ""
    others = [row for row in rows if row is not lead and row.value is not None]
    beside = [f"{row.statistic} {scale(row.unit, [row.value], row.metric).text(row.value)}" for row in others]
    statistic = "" if lead.statistic == "value" else lead.statistic
    meaning = METRICS[lead.metric].meaning
    return MetricLine(
        words(lead.metric),
        meaning,
        statistic,
        shown.text(lead.value),
        interval,
        lead.n,
        " · ".join([*beside, *filter(None, [lead.reason, lead.method])]),
    )


def _signal(item: Telemetry) -> SignalLine:
    shown = scale(item.unit, [item.mean, item.max])
    return SignalLine(words(item.signal), words(item.phase), *(shown.text(value) for value in (item.mean, item.min, item.max)))


def _stages(document: ResultDocument, phase: str) -> tuple[tuple[str, str, str], ...]:
    own = [stage for stage in document.stages if stage.phase == phase and stage.n]
    total = sum(stage.total_s for stage in own)
    means = [stage.total_s / stage.n for stage in own]
    return tuple(
        (words(stage.stage), scale("s", [mean]).text(mean), f"{stage.total_s / total:.0%}" if total else "")
        for stage, mean in zip(own, means, strict=True)
    )


def _curves(document: ResultDocument, phase: str) -> CurveTable | None:
    own = [curve for curve in document.curves if curve.phase == phase and curve.along == "input_tokens"]
    if not own:
        return None
    places = sorted({point.at for curve in own for point in curve.points})
    lines = []
    for curve in own:
        values = {point.at: point.value for point in curve.points}
        shown = scale(curve.unit, values.values(), curve.metric)
        statistic = "" if curve.statistic == "value" else curve.statistic
        lines.append((words(curve.metric), statistic, tuple(shown.text(values.get(at)) for at in places)))
    return CurveTable((words(own[0].along), *(f"{at:,.0f}" for at in places)), tuple(lines))


def _pod(pod: PodRecord) -> PodPart:
    exit_status = f"exit status {pod.exit_code}" if pod.exit_code is not None else ""
    return PodPart(
        name=pod.name,
        node=pod.node,
        ended=", ".join(part for part in (pod.reason, exit_status) if part) or "nothing was seen of its end",
        facts=tuple((key, "–" if value is None else str(value)) for key, value in sorted(pod.facts.items())),
        moments=tuple(_moments(pod.events)),
        notices=tuple((n.utc.strftime("%H:%M:%S"), n.reason, f"{n.count}×" if n.count > 1 else "", n.message) for n in pod.notices),
    )


def _moments(events: tuple[Event, ...], simulated: bool = False) -> list[Moment]:
    """Events in the order of the wall clock, after the request: a cluster cuts its times to whole seconds, so what followed from the
    request may seem to come before it. All clocks count from the same first moment.
    """
    if not events:
        return []
    ordered = sorted(events, key=lambda e: (e.name != "requested", e.utc))
    after = clock(ordered, simulated)
    first = after(ordered[0])
    return [Moment(words(e.name), e.clock, f"{max(after(e) - first, 0.0):.2f} s", e.utc.strftime("%H:%M:%S")) for e in ordered]
