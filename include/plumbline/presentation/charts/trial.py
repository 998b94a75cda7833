"""Charts of one trial: its timeline from request to release, and its curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name
from plumbline.presentation.charts.chart import Chart, axis
from plumbline.results import Curve, Event, Point, ResultDocument

WAITS, STARTS, PROBES, WARMS_UP, MEASURES, CLOSES = "waits", "starts", "probes", "warms up", "measures", "closes"
_LOOK = {
    WAITS: ("$faint", "/"),
    STARTS: ("$p5", "\\"),
    PROBES: ("$p4", "."),
    WARMS_UP: ("$p3", "x"),
    MEASURES: ("$p0", ""),
    CLOSES: ("$p7", "-"),
}
"""Colour and pattern of what somebody was at: told apart without colours too."""

_SPANS: dict[tuple[str, str], tuple[str, str]] = {
    ("queued", "requested"): (WAITS, "waits for a free place"),
    ("requested", "created"): (WAITS, "is created"),
    ("requested", "deleted"): (WAITS, "launch"),
    ("created", "finished"): (MEASURES, "runs"),
    ("requested", "admitted"): (WAITS, "waits in the queue"),
    ("requested", "scheduled"): (WAITS, "waits for a node"),
    ("created", "scheduled"): (WAITS, "waits for a node"),
    ("admitted", "scheduled"): (WAITS, "waits for a node"),
    ("scheduled", "image_pulling"): (STARTS, "node prepares"),
    ("image_pulling", "image_pulled"): (STARTS, "image is pulled"),
    ("image_pulled", "started"): (STARTS, "container starts"),
    ("scheduled", "started"): (STARTS, "container starts"),
    ("started", "ready"): (STARTS, "comes up"),
    ("requested", "process_started"): (STARTS, "process starts"),
    ("process_started", "harness_ready"): (STARTS, "harness starts"),
    ("requested", "harness_ready"): (STARTS, "place and harness start"),
    ("finished", "deleted"): (CLOSES, "is taken away"),
    ("finished", "released"): (CLOSES, "is given back"),
    ("harness_started", "environment_probed"): (PROBES, "probes the environment"),
    ("environment_probed", "measurement_started"): (STARTS, "prepares"),
    ("measurement_started", "server_started"): (STARTS, "prepares"),
    ("measurement_started", "training_launched"): (STARTS, "prepares"),
    ("measurement_started", "measurement_finished"): (MEASURES, "measures"),
    ("server_started", "server_ready"): (STARTS, "server loads"),
    ("server_ready", "first_inference_ended"): (WARMS_UP, "first inference"),
    ("training_launched", "first_step_done"): (STARTS, "cold start, first step"),
    ("first_step_done", "steady_begun"): (WARMS_UP, "warm-up"),
    ("warmup_started", "warmup_ended"): (WARMS_UP, "warm-up"),
    ("steady_begun", "steady_ended"): (MEASURES, "steady"),
    ("server_stopping", "server_stopped"): (CLOSES, "server stops"),
    ("steady_ended", "measurement_finished"): (CLOSES, "closes"),
    ("server_stopped", "measurement_finished"): (CLOSES, "closes"),
    ("measurement_finished", "evidence_stored"): (CLOSES, "stores evidence"),
    ("fault_started", "fault_injected"): (MEASURES, "load before the fault"),
    ("fault_injected", "server_restarted"): (MEASURES, "fault until restart"),
    ("server_restarted", "recovered"): (MEASURES, "recovers"),
    ("recovered", "fault_ended"): (MEASURES, "load after recovery"),
}
_RUNNING = ("started", "ready", "harness_ready", "process_started", "requested", "probe_begun")
"""Events after which a place simply runs until it is finished."""


@dataclass(frozen=True)
class Span:
    """Something that took from `begin` to `end`, in seconds since the first event of all."""

    lane: str
    doing: str
    name: str
    begin: float
    end: float


def timeline_spans(document: ResultDocument) -> tuple[Span, ...]:
    """Every stretch between two events of one lane: the launcher's, each pod's, the harness's. Empty where nobody saw two moments.

    Wall clocks, so that lanes compare: a cluster cuts its times to whole seconds, and lanes may be off by that.
    """
    launch = document.launch
    lanes: list[tuple[str, Sequence[Event]]] = []
    if launch is not None:
        own = [e for e in launch.events if e.clock == "launcher" or not launch.pods]
        lanes.append(("launcher", own))
        lanes += [(f"pod {pod.rank}", pod.events) for pod in launch.pods]
    lanes.append(("harness", document.timeline))
    moments = [e for _, events in lanes for e in events]
    if not moments:
        return ()
    after = event_clock(moments, document.simulated)
    return tuple(span for lane, events in lanes for span in _lane(lane, events, after))


def event_clock(events: Sequence[Event], simulated: bool) -> Callable[[Event], float]:
    """Seconds of an event after the first of these, by the wall clock. A simulation's goes faster than the time that it tells of: there the
    monotonic one counts, which all who take part in it share."""
    if simulated and all(e.monotonic_s is not None for e in events):
        begin = min(e.monotonic_s or 0.0 for e in events)
        return lambda event: (event.monotonic_s or 0.0) - begin
    zero = min(e.utc for e in events)
    return lambda event: (event.utc - zero).total_seconds()


def _lane(lane: str, events: Iterable[Event], after: Callable[[Event], float]) -> Iterable[Span]:
    # What followed from the request may seem to come before it, on a clock that is cut to whole seconds.
    ordered = sorted(events, key=lambda e: (e.name not in ("queued", "requested"), e.utc))
    for former, latter in pairwise(ordered):
        doing, name = _span_name(former.name, latter.name)
        begin, end = after(former), after(latter)
        if end > begin:
            yield Span(lane, doing, name, begin, end)


def _span_name(before: str, after: str) -> tuple[str, str]:
    if (before, after) in _SPANS:
        return _SPANS[before, after]
    phase = before.removesuffix("_started").removesuffix("_begun")
    if after == f"{phase}_ended":
        return MEASURES, format_name(phase)
    if after in ("finished", "released") and before in _RUNNING:
        return MEASURES, "runs"
    return STARTS, f"{format_name(before)} → {format_name(after)}"


def timeline_chart(document: ResultDocument) -> Chart | None:
    """The spans as a picture; None where there are none."""
    found = timeline_spans(document)
    if not found:
        return None
    end = max(s.end for s in found)
    shown = common_scale("s", [end])
    lanes = list(dict.fromkeys(s.lane for s in found))
    data: list[dict[str, Any]] = []
    for doing, (paint, pattern) in _LOOK.items():
        own = [s for s in found if s.doing == doing]
        if own:
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": [s.lane for s in own],
                    "base": [s.begin / shown.factor for s in own],
                    "x": [(s.end - s.begin) / shown.factor for s in own],
                    # A name stands in its bar only where there is room for it; all names stand in the table and on hover.
                    "text": [s.name if s.end - s.begin > 0.012 * len(s.name) * end else "" for s in own],
                    "customdata": [[s.name, common_scale("s", [s.end - s.begin]).text(s.end - s.begin)] for s in own],
                    "textposition": "inside",
                    "insidetextanchor": "middle",
                    "name": doing,
                    "marker": {
                        "color": paint,
                        "line": {"color": "$paper", "width": 1},
                        "pattern": {"shape": pattern, "size": 7, "solidity": 0.12, "fillmode": "overlay", "fgcolor": "$paper"},
                    },
                    "hovertemplate": "%{y}: %{customdata[0]}, %{customdata[1]}<extra></extra>",
                }
            )
    return Chart(
        name="from-request-to-release",
        section="trial",
        title="From request to release",
        caption="Who was at what, by the wall clock. The table below names every moment.",
        data=data,
        layout={
            "barmode": "overlay",
            "bargap": 0.35,
            "xaxis": axis(f"after the first event ({shown.suffix})", range=[0, end / shown.factor * 1.01]),
            "yaxis": axis("", type="category", categoryorder="array", categoryarray=lanes[::-1], ticklabelstandoff=8),
            "legend": {"traceorder": "normal"},
            "uniformtext": {"minsize": 9, "mode": "hide"},
        },
        height=130 + 58 * len(lanes),
        wide=True,
    )


WIDE, HIGH = 600, 180
"""The picture's own units; it is stretched to its place, lines keep their width."""
_TITLES = {"step": "step", "run_time": "time", "rank": "rank"}
_FROM_ZERO = ("run_time", "rank")
_LITTLE = 0.06
"""Room above and below, as a share of the range of values."""


@dataclass(frozen=True)
class CurvePart:
    """What was measured in one phase. `path`: its line, or its marks where each place stands for itself, as an SVG path."""

    phase: str
    path: str


@dataclass(frozen=True)
class CurveSketch:
    """A metric along something. `absent`: how many places have no value; `shaded`: the part before the steady state, in picture units."""

    title: str
    along: str
    marks: bool
    parts: tuple[CurvePart, ...]
    top: str
    bottom: str
    first: str
    last: str
    shaded: float
    absent: int
    said: str


def curve_sketches(document: ResultDocument) -> tuple[CurveSketch, ...]:
    """A picture of each metric along steps, time or ranks; prompt lengths are few and stand in a table."""
    together: dict[tuple[str, str, str], list[Curve]] = {}
    for curve in document.curves:
        if curve.along in _TITLES:
            together.setdefault((curve.along, curve.metric, curve.statistic), []).append(curve)
    return tuple(found for curves in together.values() if (found := _sketch(curves)) is not None)


def _sketch(curves: Sequence[Curve]) -> CurveSketch | None:
    lead, points = curves[0], [point for curve in curves for point in curve.points]
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    low, high = _range(lead.along, values)
    begin = 0.0 if lead.along == "run_time" else min(point.at for point in points)
    end = max(point.at for point in points)
    shown, marks = common_scale(lead.unit, [*values, high], lead.metric), lead.along == "rank"

    def place(point: Point) -> tuple[float, float]:
        across = (point.at - begin) / (end - begin) if end > begin else 0.5
        # Marks stand apart from the edges: half of one would be cut off there.
        across = 0.04 + 0.92 * across if marks else across
        return WIDE * across, HIGH * (1 - ((point.value or 0.0) - low) / (high - low))

    parts, before = [], None
    for curve in sorted(curves, key=lambda curve: curve.points[0].at):
        present = [point for point in curve.points if point.value is not None]
        joined = [before, *present] if before is not None and not marks and present else present
        if joined:
            parts.append(CurvePart(curve.phase, (_marks if marks else _line)(place(point) for point in joined if point is not None)))
        before = present[-1] if present else before
    steady = [point.at for curve in curves if curve.phase == "steady" for point in curve.points]
    return CurveSketch(
        title=capitalize_first(format_name(lead.metric)),
        along=_TITLES[lead.along],
        marks=marks,
        parts=tuple(parts),
        top=shown.text(high),
        bottom=shown.text(low),
        first=_at(lead.along, begin),
        last=_at(lead.along, end),
        shaded=0.0 if marks or not steady or end == begin else WIDE * (min(steady) - begin) / (end - begin),
        absent=len(points) - len(values),
        said=_curve_text(lead, points, shown),
    )


def _range(along: str, values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if along in _FROM_ZERO and low >= 0:
        return 0.0, high * (1 + _LITTLE) or 1.0
    room = _LITTLE * (high - low) or abs(high) * _LITTLE or 1.0
    return low - room, high + room


def _line(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _marks(places: Iterable[tuple[float, float]]) -> str:
    """Lines of no length, which round ends make into dots that stay round however the picture is stretched."""
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)


def _at(along: str, at: float) -> str:
    if along != "run_time":
        return f"{at:,.0f}"
    return common_scale("s", [at]).text(at) if at else "0 s"


def _curve_text(lead: Curve, points: Sequence[Point], shown: Scale) -> str:
    """The picture in words, for those who do not see it."""
    present = [point for point in points if point.value is not None]
    least, most = min(present, key=lambda point: point.value or 0.0), max(present, key=lambda point: point.value or 0.0)
    return (
        f"{format_name(lead.metric)} by {_TITLES[lead.along]}: {shown.text(present[0].value)} at first, {shown.text(present[-1].value)} at last, "
        f"between {shown.text(least.value)} and {shown.text(most.value)}"
    )
