"""Charts of training: step times, loss and throughput over a run, busy time by rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plumbline.analysis.campaign_data import CampaignData
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import capitalize_first, common_scale, format_count, format_name
from plumbline.presentation.chart_evidence import StepTimes, sample_indices
from plumbline.presentation.charts.chart import (
    Chart,
    Part,
    axis,
    band,
    error_bars,
    line,
    marks,
    provider_style,
    round_for_chart,
    significant,
)
from plumbline.results import Curve, Point, ResultDocument


def step_time_chart(key: str, suffix: str, providers: Sequence[str], runs: Sequence[StepTimes]) -> Chart | None:
    """Every step of every repeat, one line each; None without evidence."""
    if not runs:
        return None
    all_seconds = np.concatenate([r.seconds for r in runs])
    scale = common_scale("s", [float(np.median(all_seconds))], "step_time")
    ceiling = float(np.percentile(np.concatenate([r.seconds[r.steps >= r.steady_from] for r in runs]), 99.5)) * 1.25
    slower_steps = int((all_seconds > ceiling).sum())
    data: list[Part] = []
    for run in runs:
        colour, dash, _ = provider_style(providers, run.provider)
        indices = sample_indices(run.seconds)
        x, y = run.steps[indices].astype(int).tolist(), round_for_chart(run.seconds[indices] / scale.factor)
        hover = f"{run.provider}<br>step %{{x}}: %{{y:.4g}} {scale.suffix}<extra>{run.trial_id.rsplit('.', 1)[-1]}</extra>"
        data.append(line(x, y, colour, hover, width=1.3, dash=dash, **_legend(run.provider, data)))
    note = f" {format_count(slower_steps, 'slower step')} above the visible range (double-click to show all)." if slower_steps else ""
    return Chart(
        name=f"{key}-steps",
        section="training",
        title=f"Step time over the run{suffix}",
        caption=f"Every step of every usable repeat, one line each. Shaded: warm-up, excluded from steady metrics.{note}",
        data=data,
        layout={
            "xaxis": axis("step"),
            "yaxis": axis(f"step time ({scale.suffix})", range=[0, ceiling / scale.factor]),
            "shapes": [band(0, max(r.steady_from for r in runs))],
            "hovermode": "closest",
        },
        wide=True,
    )


def _legend(provider: str, traces: Sequence[Part]) -> Part:
    """One legend entry for all lines of a provider."""
    first = all(trace["name"] != provider for trace in traces)
    return {"name": provider, "legendgroup": provider, "showlegend": first, "opacity": 0.85}


_EFFECTIVE = "Trained amount over elapsed time, pauses between steps included: a checkpoint is a dip, throttling a slope."
RUN_CURVES = (
    ("training_loss", "step", "step", "Mean over the steps of each point, all samples of all processes."),
    ("effective_tokens_per_second", "run_time", "seconds since the start of the first step", _EFFECTIVE),
    ("effective_samples_per_second", "run_time", "seconds since the start of the first step", _EFFECTIVE),
    ("rank_busy_time", "rank", "rank", "Steady median of each rank's step time without waiting for other ranks, with its interval."),
)


def run_charts(key: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str) -> Iterator[Chart]:
    """A chart of each metric of which a usable trial of the workload has a curve, one line a trial."""
    documents = [d for d in campaign.usable if d.trial.workload.name == workload]
    for metric, along, axis_title, caption in RUN_CURVES:
        curves = [(d, points) for d in documents if (points := _points(d.curves, metric, along))]
        if curves:
            caption = caption if along == "rank" else f"{caption} One line per usable repeat."
            yield _run_chart(f"{key}-over-{metric}", suffix, providers, curves, metric, along, axis_title, caption)


def _points(curves: Sequence[Curve], metric: str, along: str) -> list[Point]:
    points = [point for curve in curves if (curve.metric, curve.along) == (metric, along) for point in curve.points]
    return sorted(points, key=lambda point: point.at)


def _run_chart(
    name: str,
    suffix: str,
    providers: Sequence[str],
    curves: Sequence[tuple[ResultDocument, list[Point]]],
    metric: str,
    along: str,
    axis_title: str,
    caption: str,
) -> Chart:
    scale = common_scale(METRICS[metric].unit, [point.value for _, points in curves for point in points], metric)
    data: list[Part] = []
    for document, points in curves:
        provider = document.trial.provider.name
        colour, dash, symbol = provider_style(providers, provider)
        hover = (
            f"{provider}<br>{axis_title} %{{x:.4g}}: %{{y:.4g}} {scale.suffix}<extra>{document.trial.trial_id.rsplit('.', 1)[-1]}</extra>"
        )
        # Plotly draws a gap where a value is None.
        x, y = [p.at for p in points], [None if p.value is None else significant(p.value / scale.factor, 5) for p in points]
        legend = _legend(provider, data)
        if along == "rank":
            data.append(marks(x, y, colour, hover, symbol=symbol, error_y=_intervals(points, scale.factor, colour), **legend))
        else:
            data.append(line(x, y, colour, hover, width=1.6, dash=dash, **legend))
    few_ranks = along == "rank" and max(len(points) for _, points in curves) <= 16
    return Chart(
        name=name,
        section="training",
        title=f"{capitalize_first(format_name(metric))} by {'time' if along == 'run_time' else along}{suffix}",
        caption=caption,
        data=data,
        layout={
            "xaxis": axis(axis_title, **({"dtick": 1} if few_ranks else {})),
            "yaxis": axis(scale.suffix, **({} if metric == "training_loss" else {"rangemode": "tozero"})),
            "hovermode": "closest",
            "showlegend": True,
        },
    )


def _intervals(points: Sequence[Point], factor: float, colour: str) -> Part:
    lows = [None if p.value is None else p.ci_low for p in points]
    highs = [None if p.value is None else p.ci_high for p in points]
    return error_bars([p.value or 0.0 for p in points], lows, highs, factor, colour)
