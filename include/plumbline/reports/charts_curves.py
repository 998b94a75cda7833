"""Charts of what was measured along something: the lengths of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart, axis, colour
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import scale, sentence, words

GROWING = (("time_to_first_token", "p50"), ("inter_token_latency", "p50"), ("memory_growth_per_sequence", "max"))


def along(
    key: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str, metric: str, statistic: str
) -> Chart | None:
    """One metric by input tokens, by provider: the median over usable repeats, with their range. None if no trial has such a curve."""
    found: dict[str, dict[float, list[float]]] = {}
    for document in campaign.documents:
        quality = campaign.quality.get((document.trial.trial_id, document.trial.attempt))
        if document.trial.workload.name != workload or document.validity.status not in ("valid", "degraded"):
            continue
        if quality is not None and quality.action == "reject":
            continue
        for curve in document.curves:
            if (curve.metric, curve.statistic) == (metric, statistic):
                own = found.setdefault(document.trial.provider.name, {})
                for point in curve.points:
                    if point.value is not None:
                        own.setdefault(point.at, []).append(point.value)
    found = {provider: points for provider, points in found.items() if points}
    if not found:
        return None
    shown = scale(METRICS[metric].unit, [value for points in found.values() for values in points.values() for value in values], metric)
    data = []
    for provider, points in sorted(found.items()):
        paint, dash, symbol = colour(providers, provider)
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
                "hovertemplate": f"{provider}<br>%{{x:,}} tokens: %{{y:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    return Chart(
        name=f"{key}-along-{metric}",
        section="inference",
        title=f"{sentence(words(metric))} by prompt length{suffix}",
        caption="Phase context: prompts of one length after the other. Median over usable repeats of each trial's "
        f"{statistic}, with their range.",
        data=data,
        layout={
            "xaxis": axis("input tokens (log scale)", type="log", tickvals=sorted({at for points in found.values() for at in points})),
            "yaxis": axis(shown.suffix, rangemode="tozero"),
            "hovermode": "closest",
            "showlegend": True,
        },
    )
