"""Charts of inference latencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plumbline.reports.chart import Chart, axis, colour, log_axis, rounded
from plumbline.reports.evidence import Array, Latencies, thinned
from plumbline.reports.figures import Scale, scale, sentence, words
from plumbline.scorecards import Scorecard


def distribution(
    key: str, suffix: str, providers: Sequence[str], found: Sequence[Latencies], metric: str, limit: float | None
) -> Chart | None:
    """Share of requests answered within a time, by provider; `limit` is the SLO in seconds. None without evidence."""
    pooled: dict[str, Array] = {}
    for provider in providers:
        own = [_of(item, metric) for item in found if item.provider == provider]
        if own:
            pooled[provider] = np.sort(np.concatenate(own))
    finite = [v[np.isfinite(v)] for v in pooled.values()]
    if not any(len(v) for v in finite):
        return None
    shown = scale("s", [float(np.median(np.concatenate(finite)))], metric)
    data = []
    for provider, values in pooled.items():
        paint, dash, _ = colour(providers, provider)
        share = np.arange(1, len(values) + 1) / len(values)
        kept = thinned(values)
        kept = kept[np.isfinite(values[kept])]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": rounded(values[kept] / shown.factor),
                "y": rounded(share[kept]),
                "name": f"{provider} ({len(values):,})",
                "line": {"color": paint, "width": 2.2, "dash": dash},
                "hovertemplate": f"{provider}<br>%{{y:.1%}} within %{{x:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    edges = [float(edge) for each in finite if len(each) for edge in (each[0], each[-1])] + ([limit] if limit is not None else [])
    layout: dict[str, Any] = {
        "xaxis": log_axis(f"{words(metric)} ({shown.suffix}, log scale)", [edge / shown.factor for edge in edges]),
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
        title=f"{sentence(words(metric))}{suffix}",
        caption="Share of the steady phase's requests answered within a time, all usable repeats together (their number in brackets). "
        "Measured from the scheduled arrival; a failed request never arrives at 100 %.",
        data=data,
        layout=layout,
    )


def _of(item: Latencies, metric: str) -> Array:
    return item.first_token if metric == "time_to_first_token" else item.scheduled


def _short(value: float, shown: Scale) -> str:
    """A value in a chart's unit, without needless decimals."""
    return f"{value / shown.factor:,.4g} {shown.suffix}"


def percentiles(key: str, suffix: str, providers: Sequence[str], cards: Sequence[Scorecard], metric: str) -> Chart | None:
    """Percentiles with the range of the repeats; None if none was measured."""
    statistics = ("p50", "p90", "p95", "p99")
    rows = {c.provider: [c.row(metric, s, "steady") for s in statistics] for c in cards}
    values = [r.value for found in rows.values() for r in found if r is not None]
    if not [v for v in values if v is not None]:
        return None
    shown = scale("s", values, metric)
    data = []
    for provider, found in sorted(rows.items()):
        kept = [(s, r) for s, r in zip(statistics, found, strict=True) if r is not None and r.value is not None]
        paint, _, symbol = colour(providers, provider)
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
        title=f"{sentence(words(metric))} by percentile{suffix}",
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
