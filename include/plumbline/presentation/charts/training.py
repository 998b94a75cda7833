"""Charts of training: step times, loss and throughput over a run, busy time by rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plumbline.analysis.campaign_data import CampaignData
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import capitalize_first, common_scale, format_name
from plumbline.presentation.chart_evidence import StepTimes, thinned
from plumbline.presentation.charts.chart import Chart, axis, provider_style, round_for_chart
from plumbline.results import Curve, Point, ResultDocument


def step_time_chart(key: str, suffix: str, providers: Sequence[str], runs: Sequence[StepTimes]) -> Chart | None:
    """Every step of every repeat, one line each; None without evidence."""
    if not runs:
        return None
    everything = np.concatenate([r.seconds for r in runs])
    shown = common_scale("s", [float(np.median(everything))], "step_time")
    ceiling = float(np.percentile(np.concatenate([r.seconds[r.steps >= r.steady_from] for r in runs]), 99.5)) * 1.25
    above = int((everything > ceiling).sum())
    data = []
    for run in runs:
        paint, dash, _ = provider_style(providers, run.provider)
        kept = thinned(run.seconds)
        first = run is next(r for r in runs if r.provider == run.provider)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": run.steps[kept].astype(int).tolist(),
                "y": round_for_chart(run.seconds[kept] / shown.factor),
                "name": run.provider,
                "legendgroup": run.provider,
                "showlegend": first,
                "line": {"color": paint, "width": 1.3, "dash": dash},
                "opacity": 0.85,
                "hovertemplate": f"{run.provider}<br>step %{{x}}: %{{y:.4g}} {shown.suffix}<extra>{run.trial_id.rsplit('.', 1)[-1]}</extra>",
            }
        )
    outside = f" {above} slower {'step lies' if above == 1 else 'steps lie'} above the picture (double-click shows all)." if above else ""
    start = max(r.steady_from for r in runs)
    return Chart(
        name=f"{key}-steps",
        section="training",
        title=f"Step time over the run{suffix}",
        caption=f"Every step of every usable repeat, one line each. The shaded start is warm-up and counts in no steady number.{outside}",
        data=data,
        layout={
            "xaxis": axis("step"),
            "yaxis": axis(f"step time ({shown.suffix})", range=[0, ceiling / shown.factor]),
            "shapes": [
                {
                    "type": "rect",
                    "xref": "x",
                    "yref": "paper",
                    "x0": 0,
                    "x1": start,
                    "y0": 0,
                    "y1": 1,
                    "fillcolor": "$band",
                    "line": {"width": 0},
                    "layer": "below",
                }
            ],
            "hovermode": "closest",
        },
        wide=True,
    )


RUN_CURVES = (
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


def run_charts(key: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str) -> Iterator[Chart]:
    """A chart of each metric of which a usable trial of the workload has a curve, a line a trial."""
    for metric, along, where, caption in RUN_CURVES:
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
    shown = common_scale(METRICS[metric].unit, [point.value for _, points in found for point in points], metric)
    data: list[dict[str, Any]] = []
    for document, points in found:
        provider = document.trial.provider.name
        paint, dash, symbol = provider_style(providers, provider)
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
        title=f"{capitalize_first(format_name(metric))} by {'time' if along == 'run_time' else along}{suffix}",
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
