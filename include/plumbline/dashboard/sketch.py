"""Curves of one trial as pictures: plain SVG, because the pages run no script. Everything is computed here, the template lays it out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plumbline.reports.figures import Scale, scale, sentence, words
from plumbline.results import Curve, Point, ResultDocument

WIDE, HIGH = 600, 180
"""The picture's own units; it is stretched to its place, lines keep their width."""
_TITLES = {"step": "step", "run_time": "time", "rank": "rank"}
_FROM_ZERO = ("run_time", "rank")
_LITTLE = 0.06
"""Room above and below, as a share of the range of values."""


@dataclass(frozen=True)
class Part:
    """What was measured in one phase. `path`: its line, or its marks where each place stands for itself, as an SVG path."""

    phase: str
    path: str


@dataclass(frozen=True)
class Sketch:
    """A metric along something. `absent`: how many places have no value; `shaded`: the part before the steady state, in picture units."""

    title: str
    along: str
    marks: bool
    parts: tuple[Part, ...]
    top: str
    bottom: str
    first: str
    last: str
    shaded: float
    absent: int
    said: str


def sketches(document: ResultDocument) -> tuple[Sketch, ...]:
    """A picture of each metric along steps, time or ranks; prompt lengths are few and stand in a table."""
    together: dict[tuple[str, str, str], list[Curve]] = {}
    for curve in document.curves:
        if curve.along in _TITLES:
            together.setdefault((curve.along, curve.metric, curve.statistic), []).append(curve)
    return tuple(found for curves in together.values() if (found := _sketch(curves)) is not None)


def _sketch(curves: Sequence[Curve]) -> Sketch | None:
    lead, points = curves[0], [point for curve in curves for point in curve.points]
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    low, high = _range(lead.along, values)
    begin = 0.0 if lead.along == "run_time" else min(point.at for point in points)
    end = max(point.at for point in points)
    shown, marks = scale(lead.unit, [*values, high], lead.metric), lead.along == "rank"

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
            parts.append(Part(curve.phase, (_marks if marks else _line)(place(point) for point in joined if point is not None)))
        before = present[-1] if present else before
    steady = [point.at for curve in curves if curve.phase == "steady" for point in curve.points]
    return Sketch(
        title=sentence(words(lead.metric)),
        along=_TITLES[lead.along],
        marks=marks,
        parts=tuple(parts),
        top=shown.text(high),
        bottom=shown.text(low),
        first=_at(lead.along, begin),
        last=_at(lead.along, end),
        shaded=0.0 if marks or not steady or end == begin else WIDE * (min(steady) - begin) / (end - begin),
        absent=len(points) - len(values),
        said=_said(lead, points, shown),
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
    return scale("s", [at]).text(at) if at else "0 s"


def _said(lead: Curve, points: Sequence[Point], shown: Scale) -> str:
    """The picture in words, for those who do not see it."""
    present = [point for point in points if point.value is not None]
    least, most = min(present, key=lambda point: point.value or 0.0), max(present, key=lambda point: point.value or 0.0)
    return (
        f"{words(lead.metric)} by {_TITLES[lead.along]}: {shown.text(present[0].value)} at first, {shown.text(present[-1].value)} at last, "
        f"between {shown.text(least.value)} and {shown.text(most.value)}"
    )
