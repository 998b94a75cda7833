"""Charts of inference: latency distributions, percentiles, metrics by prompt length."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name
from plumbline.presentation.chart_evidence import Array, Latencies, thinned
from plumbline.presentation.charts.chart import Chart, axis, log_axis, provider_style, round_for_chart


def latency_distribution_chart(
    key: str, suffix: str, providers: Sequence[str], found: Sequence[Latencies], metric: str, limit: float | None
) -> Chart | None:
    """Share of requests answered within a time, by provider; `limit` is the SLO in seconds. None without evidence."""
    pooled: dict[str, Array] = {}
    for provider in providers:
        own = [_latencies(item, metric) for item in found if item.provider == provider]
        if own:
            pooled[provider] = np.sort(np.concatenate(own))
    finite = [v[np.isfinite(v)] for v in pooled.values()]
    if not any(len(v) for v in finite):
        return None
    shown = common_scale("s", [float(np.median(np.concatenate(finite)))], metric)
    data = []
    for provider, values in pooled.items():
        paint, dash, _ = provider_style(providers, provider)
        share = np.arange(1, len(values) + 1) / len(values)
        kept = thinned(values)
        kept = kept[np.isfinite(values[kept])]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": round_for_chart(values[kept] / shown.factor),
                "y": round_for_chart(share[kept]),
                "name": f"{provider} ({len(values):,})",
                "line": {"color": paint, "width": 2.2, "dash": dash},
                "hovertemplate": f"{provider}<br>%{{y:.1%}} within %{{x:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    edges = [float(edge) for each in finite if len(each) for edge in (each[0], each[-1])] + ([limit] if limit is not None else [])
    layout: dict[str, Any] = {
        "xaxis": log_axis(f"{format_name(metric)} ({shown.suffix}, log scale)", [edge / shown.factor for edge in edges]),
        "yaxis": axis("share of requests", tickformat=".0%", range=[0, 1.02]),
        "hovermode": "closest",
        "showlegend": True,
    }
    if limit is not None:
        layout["shapes"] = [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": limit / shown.factor,
                "x1": limit / shown.factor,
                "y0": 0,
                "y1": 1,
                "line": {"color": "$ink", "width": 1.2, "dash": "dot"},
            }
        ]
        layout["annotations"] = [
            {
                "x": float(np.log10(limit / shown.factor)),
                "xref": "x",
                "y": 0.03,
                "yref": "paper",
                "text": f"SLO {_short(limit, shown)}",
                "showarrow": False,
                "xanchor": "right",
                "xshift": -6,
                "font": {"color": "$ink", "size": 11},
            }
        ]
    return Chart(
        name=f"{key}-cdf-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))}{suffix}",
        caption="Share of the steady phase's requests answered within a time, all usable repeats together (their number in brackets). "
        "Measured from the scheduled arrival; a failed request never arrives at 100 %.",
        data=data,
        layout=layout,
    )


def _latencies(item: Latencies, metric: str) -> Array:
    return item.first_token if metric == "time_to_first_token" else item.scheduled


def _short(value: float, shown: Scale) -> str:
    """A value in a chart's unit, without needless decimals."""
    return f"{value / shown.factor:,.4g} {shown.suffix}"


def percentile_chart(key: str, suffix: str, providers: Sequence[str], cards: Sequence[Scorecard], metric: str) -> Chart | None:
    """Percentiles with the range of the repeats; None if none was measured."""
    statistics = ("p50", "p90", "p95", "p99")
    rows = {c.provider: [c.row(metric, s, "steady") for s in statistics] for c in cards}
    values = [r.value for found in rows.values() for r in found if r is not None]
    if not [v for v in values if v is not None]:
        return None
    shown = common_scale("s", values, metric)
    data = []
    for provider, found in sorted(rows.items()):
        kept = [(s, r) for s, r in zip(statistics, found, strict=True) if r is not None and r.value is not None]
        paint, _, symbol = provider_style(providers, provider)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [s for s, _ in kept],
                "y": [(r.value or 0.0) / shown.factor for _, r in kept],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [((r.high if r.high is not None else r.value or 0.0) - (r.value or 0.0)) / shown.factor for _, r in kept],
                    "arrayminus": [((r.value or 0.0) - (r.low if r.low is not None else r.value or 0.0)) / shown.factor for _, r in kept],
                    "color": paint,
                    "thickness": 2,
                    "width": 6,
                },
                "name": provider,
                "marker": {"color": paint, "size": 10, "symbol": symbol},
                "hovertemplate": f"{provider} %{{x}}: %{{y:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    return Chart(
        name=f"{key}-percentiles-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))} by percentile{suffix}",
        caption="Median over usable repeats with their range. High percentiles of few requests are shown, never alarmed on alone.",
        data=data,
        layout={
            "xaxis": axis("", type="category", categoryorder="array", categoryarray=list(statistics)),
            "yaxis": axis(shown.suffix, rangemode="tozero"),
            "showlegend": True,
            "scattermode": "group",
            "scattergap": 0.6,
        },
    )


PROMPT_LENGTH = "input tokens"
PROMPT_LENGTH_METRICS = (("time_to_first_token", "p50"), ("inter_token_latency", "p50"), ("memory_growth_per_sequence", "max"))


def prompt_length_chart(
    key: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str, metric: str, statistic: str
) -> Chart | None:
    """One metric by input tokens, by provider: the median over usable repeats, with their range. None if no trial has such a curve."""
    found: dict[str, dict[float, list[float]]] = {}
    for document in campaign.usable:
        if document.trial.workload.name != workload:
            continue
        for curve in document.curves:
            if (curve.along, curve.metric, curve.statistic) == ("input_tokens", metric, statistic):
                own = found.setdefault(document.trial.provider.name, {})
                for point in curve.points:
                    if point.value is not None:
                        own.setdefault(point.at, []).append(point.value)
    found = {provider: points for provider, points in found.items() if points}
    if not found:
        return None
    every = [value for points in found.values() for values in points.values() for value in values]
    shown = common_scale(METRICS[metric].unit, every, metric)
    power = min(every) > 0
    data = []
    for provider, points in sorted(found.items()):
        paint, dash, symbol = provider_style(providers, provider)
        places = sorted(points)
        middle = [median(points[at]) for at in places]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": places,
                "y": [value / shown.factor for value in middle],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [(max(points[at]) - value) / shown.factor for at, value in zip(places, middle, strict=True)],
                    "arrayminus": [(value - min(points[at])) / shown.factor for at, value in zip(places, middle, strict=True)],
                    "color": paint,
                    "thickness": 1.4,
                },
                "name": provider,
                "line": {"color": paint, "width": 2.2, "dash": dash},
                "marker": {"color": paint, "size": 8, "symbol": symbol},
                "hovertemplate": f"{provider}<br>%{{x:,}} {PROMPT_LENGTH}: %{{y:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    return Chart(
        name=f"{key}-along-{metric}",
        section="inference",
        title=f"{capitalize_first(format_name(metric))} by prompt length{suffix}",
        caption="Phase context: prompts of one length after the other. Median over usable repeats of each trial's "
        f"{statistic}, with their range."
        + (" Both scales are logarithmic: costs that are proportional to the length double with it." if power else ""),
        data=data,
        layout={
            "xaxis": log_axis(f"{PROMPT_LENGTH} (log scale)", [], sorted({at for points in found.values() for at in points})),
            "yaxis": log_axis(f"{shown.suffix} (log scale)", [value / shown.factor for value in every]) if power else axis(shown.suffix),
            "hovermode": "closest",
            "showlegend": True,
        },
    )
