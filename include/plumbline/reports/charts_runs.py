"""Charts of what a trial's curves say of its way: over its steps, over its time, by its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart, axis, colour
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import scale, sentence, words
from plumbline.results import Curve, Point, ResultDocument

WAYS = (
    ("training_loss", "step", "step", "Mean of the steps of each point, all samples of all processes."),
    (
        "effective_tokens_per_second",
        "run_time",
        "seconds since the first step began",
        "What was trained over the time that it took, pauses between steps included: a checkpoint is a dip, throttling a slope.",
    ),
    (
        "effective_samples_per_second",
        "run_time",
        "seconds since the first step began",
        "What was trained over the time that it took, pauses between steps included: a checkpoint is a dip, throttling a slope.",
    ),
    (
        "rank_busy_time",
        "rank",
        "rank",
        "Steady median of what each rank's steps took without its waiting for the others, with its interval.",
    ),
)


def on_the_way(key: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str) -> Iterator[Chart]:
    """A chart of each metric of which a usable trial of the workload has a curve, a line a trial."""
    for metric, along, where, caption in WAYS:
        found = [(d, points) for d in _usable(campaign, workload) if (points := _points(d.curves, metric, along))]
        if found:
            yield _chart(f"{key}-over-{metric}", suffix, providers, found, metric, along, where, caption)


def _usable(campaign: CampaignData, workload: str) -> Iterator[ResultDocument]:
    return (document for document in campaign.usable if document.trial.workload.name == workload)


def _points(curves: Sequence[Curve], metric: str, along: str) -> list[Point]:
    """The parts of a curve, phase by phase, as one."""
    own = [point for curve in curves if (curve.metric, curve.along) == (metric, along) for point in curve.points]
    return sorted(own, key=lambda point: point.at)


def _chart(
    name: str,
    suffix: str,
    providers: Sequence[str],
    found: Sequence[tuple[ResultDocument, list[Point]]],
    metric: str,
    along: str,
    where: str,
    caption: str,
) -> Chart:
    shown = scale(METRICS[metric].unit, [point.value for _, points in found for point in points], metric)
    data: list[dict[str, Any]] = []
    for document, points in found:
        provider = document.trial.provider.name
        paint, dash, symbol = colour(providers, provider)
        drawn: dict[str, Any] = {"mode": "lines", "line": {"color": paint, "width": 1.6, "dash": dash}}
        if along == "rank":
            drawn = {
                "mode": "markers",
                "marker": {"color": paint, "size": 9, "symbol": symbol},
                "error_y": _interval(points, shown.factor, paint),
            }
        data.append(
            {
                "type": "scatter",
                **drawn,
                "x": [point.at for point in points],
                # A gap where there is no value: Plotly draws none through it.
                "y": [None if point.value is None else float(f"{point.value / shown.factor:.5g}") for point in points],
                "name": provider,
                "legendgroup": provider,
                "showlegend": all(line["name"] != provider for line in data),
                "opacity": 0.85,
                "hovertemplate": f"{provider}<br>{where} %{{x:.4g}}: %{{y:.4g}} {shown.suffix}"
                f"<extra>{document.trial.trial_id.rsplit('.', 1)[-1]}</extra>",
            }
        )
    zero = {} if metric == "training_loss" else {"rangemode": "tozero"}
    return Chart(
        name=name,
        section="training",
        title=f"{sentence(words(metric))} by {'time' if along == 'run_time' else along}{suffix}",
        caption=f"{caption} One line a usable repeat." if along != "rank" else caption,
        data=data,
        layout={
            "xaxis": axis(where, **({"dtick": 1} if along == "rank" and max(len(points) for _, points in found) <= 16 else {})),
            "yaxis": axis(shown.suffix, **zero),
            "hovermode": "closest",
            "showlegend": True,
        },
    )


def _interval(points: Sequence[Point], factor: float, paint: str) -> dict[str, Any]:
    def reach(end: float | None, value: float | None) -> float:
        return abs(end - value) / factor if end is not None and value is not None else 0.0

    return {
        "type": "data",
        "symmetric": False,
        "array": [reach(point.ci_high, point.value) for point in points],
        "arrayminus": [reach(point.ci_low, point.value) for point in points],
        "color": paint,
        "thickness": 1.4,
    }
