"""Charts of what was measured along something: the lengths of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart, axis, colour, log_axis
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import scale, sentence, words

ALONG = "input tokens"
GROWING = (("time_to_first_token", "p50"), ("inter_token_latency", "p50"), ("memory_growth_per_sequence", "max"))


def along(
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
    shown = scale(METRICS[metric].unit, every, metric)
    power = min(every) > 0
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
                "hovertemplate": f"{provider}<br>%{{x:,}} {ALONG}: %{{y:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    return Chart(
        name=f"{key}-along-{metric}",
        section="inference",
        title=f"{sentence(words(metric))} by prompt length{suffix}",
        caption="Phase context: prompts of one length after the other. Median over usable repeats of each trial's "
        f"{statistic}, with their range."
        + (" Both scales are logarithmic: costs that are proportional to the length double with it." if power else ""),
        data=data,
        layout={
            "xaxis": log_axis(f"{ALONG} (log scale)", [], sorted({at for points in found.values() for at in points})),
            "yaxis": log_axis(f"{shown.suffix} (log scale)", [value / shown.factor for value in every]) if power else axis(shown.suffix),
            "hovermode": "closest",
            "showlegend": True,
        },
    )
