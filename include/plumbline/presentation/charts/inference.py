"""Charts of inference: latency distributions, percentiles, metrics by prompt length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np

from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import capitalize_first, common_scale, format_name
from plumbline.presentation.chart_evidence import Array, Latencies, sample_indices
from plumbline.presentation.charts.chart import (
    Chart,
    Part,
    axis,
    error_bars,
    line,
    log_axis,
    marks,
    provider_style,
    round_for_chart,
    vertical,
)
from plumbline.results import ResultDocument

LATENCIES = ("time_to_first_token", "request_scheduled_latency")
"""Metrics with a distribution chart; fields of an SLO are called alike."""


def latency_distribution_chart(
    key: str, suffix: str, providers: Sequence[str], evidence: Sequence[Latencies], metric: str, limit: float | None
) -> Chart | None:
    """Share of requests answered within a time, by provider; `limit` is the SLO in seconds. None without evidence."""
    pooled: dict[str, Array] = {}
    for provider in providers:
        latencies = [e.first_token if metric == "time_to_first_token" else e.scheduled for e in evidence if e.provider == provider]
        if latencies:
            pooled[provider] = np.sort(np.concatenate(latencies))
    finite = [v[np.isfinite(v)] for v in pooled.values()]
    if not any(len(v) for v in finite):
        return None
    scale = common_scale("s", [float(np.median(np.concatenate(finite)))], metric)
    data = []
    for provider, values in pooled.items():
        colour, dash, _ = provider_style(providers, provider)
        share = np.arange(1, len(values) + 1) / len(values)
        indices = sample_indices(values)
        indices = indices[np.isfinite(values[indices])]
        x, y = round_for_chart(values[indices] / scale.factor), round_for_chart(share[indices])
        hover = f"{provider}<br>%{{y:.1%}} within %{{x:.4g}} {scale.suffix}"
        data.append(line(x, y, colour, hover, width=2.2, dash=dash, name=f"{provider} ({len(values):,})"))
    edges = [float(edge) for times in finite if len(times) for edge in (times[0], times[-1])] + ([limit] if limit is not None else [])
    layout: Part = {
        "xaxis": log_axis(f"{format_name(metric)} ({scale.suffix}, log scale)", [edge / scale.factor for edge in edges]),
        "yaxis": axis("share of requests", tickformat=".0%", range=[0, 1.02]),
        "hovermode": "closest",
        "showlegend": True,
    }
    if limit is not None:
        position = limit / scale.factor
        place = {
            "x": float(np.log10(position)),
            "xref": "x",
            "y": 0.03,
            "yref": "paper",
            "showarrow": False,
            "xanchor": "right",
            "xshift": -6,
        }
        layout["shapes"] = [vertical(position, width=1.2)]
        layout["annotations"] = [{**place, "text": f"SLO {position:,.4g} {scale.suffix}", "font": {"color": "$ink", "size": 11}}]
    return Chart(
        name=f"{key}-cdf-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))}{suffix}",
        caption="Share of steady requests answered within a time, all usable repeats pooled (count in brackets). "
        "Measured from the scheduled arrival; failed requests count as never answered.",
        data=data,
        layout=layout,
    )


def percentile_chart(key: str, suffix: str, providers: Sequence[str], cards: Sequence[Scorecard], metric: str) -> Chart | None:
    """Percentiles with the range of the repeats; None if none was measured."""
    statistics = ("p50", "p90", "p95", "p99")
    rows = {c.provider: [(s, r, r.value) for s in statistics if (r := c.row(metric, s, "steady")) and r.value is not None] for c in cards}
    all_values = [value for provider_rows in rows.values() for _, _, value in provider_rows]
    if not all_values:
        return None
    scale = common_scale("s", all_values, metric)
    data = []
    for provider, provider_rows in sorted(rows.items()):
        colour, _, symbol = provider_style(providers, provider)
        values = [value for *_, value in provider_rows]
        error = error_bars(
            values, [r.low for _, r, _ in provider_rows], [r.high for _, r, _ in provider_rows], scale.factor, colour, thickness=2, width=6
        )
        hover = f"{provider} %{{x}}: %{{y:.4g}} {scale.suffix}"
        y = [value / scale.factor for value in values]
        data.append(marks([s for s, *_ in provider_rows], y, colour, hover, size=10, symbol=symbol, name=provider, error_y=error))
    return Chart(
        name=f"{key}-percentiles-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))} by percentile{suffix}",
        caption="Median over usable repeats with their range. High percentiles of few requests never raise an alert by themselves.",
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryorder="array", categoryarray=list(statistics)),
            "yaxis": axis(scale.suffix, rangemode="tozero"),
            "showlegend": True,
            "scattermode": "group",
            "scattergap": 0.6,
        },
    )


_PLACES = {
    "input_tokens": ("input tokens", "prompt length", "Phase context: prompts of one length after the other."),
    "offered_rate": ("requests/s", "offered rate", "Phase scale_out: the load stepped up to one rate after the other."),
}
PHASE_CURVES = (
    (("input_tokens", "time_to_first_token", "p50"),),
    (("input_tokens", "time_per_output_token", "p50"), ("input_tokens", "inter_token_latency", "p50")),
    (("input_tokens", "memory_growth_per_sequence", "max"),),
    (("offered_rate", "time_to_scale_out", "max"),),
    (("offered_rate", "slo_miss_ratio", "value"),),
)
"""Groups of (along, metric, statistic), of which the first measured one counts: results of earlier versions have no time_per_output_token."""


def phase_curve_chart(
    key: str,
    suffix: str,
    providers: Sequence[str],
    documents: Iterable[ResultDocument],
    workload: str,
    along: str,
    metric: str,
    statistic: str,
) -> Chart | None:
    """One metric along what a phase varies, by provider: the median over usable repeats with their range. `documents`: of usable trials. None if no trial has such a curve."""
    unit, name, phase = _PLACES[along]
    curves: dict[str, dict[float, list[float]]] = {}
    for document in documents:
        for curve in document.curves if document.trial.workload.name == workload else ():
            if (curve.along, curve.metric, curve.statistic) == (along, metric, statistic):
                for point in curve.points:
                    if point.value is not None:
                        curves.setdefault(document.trial.provider.name, {}).setdefault(point.at, []).append(point.value)
    if not curves:
        return None
    all_values = [value for points in curves.values() for values in points.values() for value in values]
    scale = common_scale(METRICS[metric].unit, all_values, metric)
    logarithmic = min(all_values) > 0
    data = []
    for provider, points in sorted(curves.items()):
        colour, dash, symbol = provider_style(providers, provider)
        repeats = [points[length] for length in sorted(points)]
        medians = [median(values) for values in repeats]
        data.append(
            line(
                sorted(points),
                [value / scale.factor for value in medians],
                colour,
                f"{provider}<br>%{{x:,}} {unit}: %{{y:.4g}} {scale.suffix}",
                width=2.2,
                dash=dash,
                mode="lines+markers",
                marker={"color": colour, "size": 8, "symbol": symbol},
                error_y=error_bars(medians, [min(values) for values in repeats], [max(values) for values in repeats], scale.factor, colour),
                name=provider,
            )
        )
    return Chart(
        name=f"{key}-along-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))} by {name}{suffix}",
        caption=f"{phase} Median of each trial's {statistic} over usable repeats, with their range."
        + (" Both scales are logarithmic." if logarithmic else ""),
        data=data,
        layout={
            "xaxis": log_axis(f"{unit} (log scale)", [], sorted({length for points in curves.values() for length in points})),
            "yaxis": log_axis(f"{scale.suffix} (log scale)", [v / scale.factor for v in all_values]) if logarithmic else axis(scale.suffix),
            "hovermode": "closest",
            "showlegend": True,
        },
    )
