"""Charts of one trial: its timeline from request to release, and its curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plumbline.metrics.formatting import capitalize_first, common_scale, format_count, format_name
from plumbline.presentation.charts.chart import (
    PAPER,
    Chart,
    Part,
    axis,
    band,
    bars,
    categories,
    line,
    marks,
    pattern,
    significant,
    vertical,
)
from plumbline.results import Curve, Event, ResultDocument
from plumbline.results.launch_record import STEP_DOWN, STEP_UP

WAITS, STARTS, PROBES, WARMS_UP, MEASURES, CLOSES = "waiting", "starting", "probing", "warm-up", "measuring", "closing"
_STYLES = {
    WAITS: ("$faint", "/"),
    STARTS: ("$p5", "\\"),
    PROBES: ("$p4", "."),
    WARMS_UP: ("$p3", "x"),
    MEASURES: ("$p0", ""),
    CLOSES: ("$p7", "-"),
}
"""Colour and pattern of each activity."""

_SPANS: dict[tuple[str, str], tuple[str, str]] = {
    ("queued", "requested"): (WAITS, "slot wait"),
    ("requested", "created"): (WAITS, "creation"),
    ("requested", "deleted"): (WAITS, "launch"),
    ("created", "finished"): (MEASURES, "run"),
    ("requested", "admitted"): (WAITS, "queue wait"),
    ("requested", "scheduled"): (WAITS, "node wait"),
    ("created", "scheduled"): (WAITS, "node wait"),
    ("admitted", "scheduled"): (WAITS, "node wait"),
    ("scheduled", "image_pulling"): (STARTS, "node preparation"),
    ("image_pulling", "image_pulled"): (STARTS, "image pull"),
    ("image_pulled", "started"): (STARTS, "container start"),
    ("scheduled", "started"): (STARTS, "container start"),
    ("started", "ready"): (STARTS, "readiness"),
    ("requested", "process_started"): (STARTS, "process start"),
    ("process_started", "harness_ready"): (STARTS, "harness start"),
    ("requested", "harness_ready"): (STARTS, "harness start"),
    ("finished", "deleted"): (CLOSES, "deletion"),
    ("finished", "released"): (CLOSES, "release"),
    ("harness_started", "environment_probed"): (PROBES, "environment probe"),
    ("environment_probed", "measurement_started"): (STARTS, "preparation"),
    ("measurement_started", "server_started"): (STARTS, "preparation"),
    ("measurement_started", "training_launched"): (STARTS, "preparation"),
    ("measurement_started", "measurement_finished"): (MEASURES, "measurement"),
    ("server_started", "server_ready"): (STARTS, "server load"),
    ("server_ready", "first_inference_ended"): (WARMS_UP, "first inference"),
    ("training_launched", "first_step_done"): (STARTS, "cold start, first step"),
    ("first_step_done", "steady_begun"): (WARMS_UP, "warm-up"),
    ("warmup_started", "warmup_ended"): (WARMS_UP, "warm-up"),
    ("steady_begun", "steady_ended"): (MEASURES, "steady"),
    ("server_stopping", "server_stopped"): (CLOSES, "server stop"),
    ("steady_ended", "measurement_finished"): (CLOSES, "final checks"),
    ("server_stopped", "measurement_finished"): (CLOSES, "final checks"),
    ("measurement_finished", "evidence_stored"): (CLOSES, "evidence upload"),
    ("fault_started", "fault_injected"): (MEASURES, "load before the fault"),
    ("fault_injected", "server_restarted"): (MEASURES, "fault until restart"),
    ("server_restarted", "recovered"): (MEASURES, "recovery"),
    ("scale_out_started", "scale_out_stepped_up"): (MEASURES, "load before the steps"),
    ("scale_out_stepped_up", "scale_out_stepped_down"): (MEASURES, "stepped-up load"),
    ("scale_out_stepped_down", "scale_out_ended"): (MEASURES, "load after the steps"),
    ("recovered", "fault_ended"): (MEASURES, "load after recovery"),
}
_RUNNING = ("started", "ready", "harness_ready", "process_started", "requested", "probe_begun")
"""Events after which a lane runs until it is finished."""


@dataclass(frozen=True)
class Span:
    """An activity, in seconds since the first event of all lanes."""

    lane: str
    activity: str
    name: str
    begin: float
    end: float


def timeline_spans(document: ResultDocument) -> tuple[Span, ...]:
    """Every interval between two events of one lane: the launcher's, each pod's, the harness's. Wall clocks: a cluster reports whole seconds, so
    lanes may be off by that."""
    launch = document.launch
    lanes: list[tuple[str, Sequence[Event]]] = []
    if launch is not None:
        launcher_events = [e for e in launch.events if e.clock == "launcher" or not launch.pods]
        lanes.append(("launcher", launcher_events))
        lanes += [(f"pod {pod.rank}", pod.events) for pod in launch.pods]
    lanes.append(("harness", document.timeline))
    moments = [e for _, events in lanes for e in events]
    if not moments:
        return ()
    after = event_clock(moments, document.simulated)
    return tuple(span for lane, events in lanes for span in _lane(lane, events, after))


def event_clock(events: Sequence[Event], simulated: bool) -> Callable[[Event], float]:
    """Seconds of an event after the first of these, by the wall clock; of a simulation by its monotonic clock, which runs in simulated time."""
    if simulated and all(e.monotonic_s is not None for e in events):
        begin = min(e.monotonic_s or 0.0 for e in events)
        return lambda event: (event.monotonic_s or 0.0) - begin
    zero = min(e.utc for e in events)
    return lambda event: (event.utc - zero).total_seconds()


def _lane(lane: str, events: Iterable[Event], after: Callable[[Event], float]) -> Iterable[Span]:
    # On a clock of whole seconds, events may seem to precede the request that caused them.
    ordered = sorted(events, key=lambda e: (e.name not in ("queued", "requested"), e.utc))
    for former, latter in pairwise(ordered):
        activity, name = _span_name(former.name, latter.name)
        begin, end = after(former), after(latter)
        if end > begin:
            yield Span(lane, activity, name, begin, end)


def _span_name(before: str, after: str) -> tuple[str, str]:
    if (before, after) in _SPANS:
        return _SPANS[before, after]
    phase = before.removesuffix("_started").removesuffix("_begun")
    if after == f"{phase}_ended":
        return MEASURES, format_name(phase)
    if after in ("finished", "released") and before in _RUNNING:
        return MEASURES, "run"
    return STARTS, f"{format_name(before)} → {format_name(after)}"


def timeline_chart(document: ResultDocument) -> Chart | None:
    """The spans as bars; None without spans."""
    spans = timeline_spans(document)
    if not spans:
        return None
    end = max(s.end for s in spans)
    scale = common_scale("s", [end])
    lanes = list(dict.fromkeys(s.lane for s in spans))
    data: list[Part] = []
    for activity, (colour, shape) in _STYLES.items():
        activity_spans = [s for s in spans if s.activity == activity]
        if activity_spans:
            data.append(
                bars(
                    [s.lane for s in activity_spans],
                    [(s.end - s.begin) / scale.factor for s in activity_spans],
                    colour,
                    "%{y}: %{customdata[0]}, %{customdata[1]}",
                    base=[s.begin / scale.factor for s in activity_spans],
                    # A bar without room for its name has it in the table and on hover.
                    text=[s.name if s.end - s.begin > 0.012 * len(s.name) * end else "" for s in activity_spans],
                    customdata=[[s.name, common_scale("s", [s.end - s.begin]).text(s.end - s.begin)] for s in activity_spans],
                    textposition="inside",
                    insidetextanchor="middle",
                    name=activity,
                    marker={"line": PAPER, "pattern": pattern(shape, 7, 0.12)},
                )
            )
    return Chart(
        name="from-request-to-release",
        section="trial",
        title="From request to release",
        caption="Activity of the launcher, pods and harness by the wall clock. The table lists every event.",
        data=data,
        layout={
            "barmode": "overlay",
            "bargap": 0.35,
            "xaxis": axis(f"after the first event ({scale.suffix})", range=[0, end / scale.factor * 1.01]),
            "yaxis": categories(categoryorder="array", categoryarray=lanes[::-1]),
            "legend": {"traceorder": "normal"},
            "uniformtext": {"minsize": 9, "mode": "hide"},
        },
        height=130 + 58 * len(lanes),
        wide=True,
    )


_ALONG = {"step": "step", "run_time": "time", "rank": "rank"}


def curve_charts(document: ResultDocument) -> tuple[Chart, ...]:
    """A chart of each metric along steps, time or ranks; a table shows curves by prompt length."""
    curves: dict[tuple[str, str, str], list[Curve]] = {}
    for curve in document.curves:
        if curve.along in _ALONG:
            curves.setdefault((curve.along, curve.metric, curve.statistic), []).append(curve)
    return tuple(chart for metric_curves in curves.values() if (chart := _curve_chart(metric_curves)) is not None)


def _curve_chart(curves: Sequence[Curve]) -> Chart | None:
    lead, points = curves[0], sorted((point for curve in curves for point in curve.points), key=lambda point: point.at)
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    scale, ranks = common_scale(lead.unit, values, lead.metric), lead.along == "rank"
    x, y = [point.at for point in points], [None if p.value is None else significant(p.value / scale.factor, 5) for p in points]
    name, along, hover = format_name(lead.metric), _ALONG[lead.along], f"%{{x:,.4g}}: %{{y:.4g}} {scale.suffix}"
    steady = [point.at for curve in curves if curve.phase == "steady" for point in curve.points]
    has_warmup = bool(steady) and not ranks and min(steady) > min(x)
    absent = len(points) - len(values)
    notes = [f"{format_count(absent, 'point')} without a value."] if absent else []
    notes += ["Shaded: before the steady phase, excluded from steady metrics."] if has_warmup else []
    return Chart(
        name=f"curve-{lead.along}-{lead.metric}-{lead.statistic}",
        section="trial",
        title=f"{capitalize_first(name)} by {along}",
        caption=" ".join(notes),
        data=[marks(x, y, "$p0", hover) if ranks else line(x, y, "$p0", hover, mode="lines" if len(values) > 1 else "markers")],
        layout={
            "xaxis": axis(
                "seconds since the start of the first step" if lead.along == "run_time" else along,
                **({"dtick": 1} if ranks and len(points) <= 16 else {}),
            ),
            "yaxis": axis(scale.suffix, **({} if lead.along == "step" else {"rangemode": "tozero"})),
            "shapes": [band(0.0 if lead.along == "run_time" else min(x), min(steady))] if has_warmup else [],
            "hovermode": "closest",
            "showlegend": False,
        },
        height=260,
    )


def replica_chart(document: ResultDocument) -> Chart | None:
    """Replicas of a server that scales, from the first step up of the load; None where the launcher saw none."""
    counts, at = document.launch.replicas if document.launch else (), {event.name: event for event in document.timeline}
    if not counts or STEP_UP not in at:
        return None
    x = [count.at - at[STEP_UP].utc.timestamp() for count in counts]
    drawn = (("ready", "$p0", "solid", [count.ready for count in counts]), ("wanted", "$p1", "dot", [count.wanted for count in counts]))
    moments = [(event.monotonic_s or 0.0) - (at[STEP_UP].monotonic_s or 0.0) for name in (STEP_UP, STEP_DOWN) if (event := at.get(name))]
    return Chart(
        name="replicas",
        section="trial",
        title="Replicas over time",
        caption="Replicas that were ready and wanted. The lines: the load stepped up, and fell back to its first rate.",
        data=[
            line(x, y, colour, f"%{{x:,.4g}} s: %{{y}} {name}", name=name, line={"color": colour, "dash": dash, "shape": "hv"})
            for name, colour, dash, y in drawn
        ],
        layout={
            "xaxis": axis("seconds since the first step up"),
            "yaxis": axis("replicas", rangemode="tozero"),
            "shapes": [vertical(moment) for moment in moments],
            "showlegend": True,
        },
        height=260,
    )
