"""Charts of scorecards, providers side by side, and the list of a report's charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.declarations import InferenceWorkload
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import capitalize_first, common_scale, format_name, format_percent
from plumbline.presentation.chart_evidence import ChartEvidence
from plumbline.presentation.charts.chart import STAGE_COLOURS, Chart, axis, provider_style
from plumbline.presentation.charts.inference import PROMPT_LENGTH_METRICS, latency_distribution_chart, percentile_chart, prompt_length_chart
from plumbline.presentation.charts.training import run_charts, step_time_chart
from plumbline.presentation.series_summary import HEADLINE_COSTS, HEADLINE_METRICS, WHOLE_ANSWER_METRICS

REPEATED_METRICS: dict[str, tuple[tuple[str, ...], ...]] = {
    "training": (("step_time",), ("tokens_per_second", "samples_per_second")),
    "inference": (("goodput",), ("output_token_throughput",)),
}
"""Of each group the first one that was measured: images have no tokens."""


def campaign_charts(campaign: CampaignData, cards: Sequence[Scorecard], evidence: ChartEvidence) -> tuple[Chart, ...]:
    """Every chart that the data allows, in the order of the report. A workload's charts stand in its kind's section."""
    providers = sorted({c.provider for c in cards})
    charts: list[Chart | None] = []
    for kind, workload in sorted({(c.kind, c.workload) for c in cards}, key=lambda k: (k[0] != "training", k[1])):
        own = [c for c in cards if (c.kind, c.workload) == (kind, workload)]
        many = len({c.workload for c in cards if c.kind == kind}) > 1
        suffix = f", {workload}" if many else ""
        key = f"{kind}-{workload}"
        if kind == "training":
            charts.append(step_time_chart(key, suffix, providers, [r for r in evidence.runs if r.workload == workload]))
            charts += run_charts(key, suffix, providers, campaign, workload)
        else:
            slo = next(
                (
                    d.trial.workload.slo
                    for d in campaign.documents
                    if isinstance(d.trial.workload, InferenceWorkload) and d.trial.workload.name == workload
                ),
                None,
            )
            found = [r for r in evidence.latencies if r.workload == workload]
            charts.append(
                latency_distribution_chart(key, suffix, providers, found, "time_to_first_token", slo.time_to_first_token if slo else None)
            )
            charts.append(
                latency_distribution_chart(
                    key, suffix, providers, found, "request_scheduled_latency", slo.request_scheduled_latency if slo else None
                )
            )
            charts += [
                prompt_length_chart(key, suffix, providers, campaign, workload, name, statistic)
                for name, statistic in PROMPT_LENGTH_METRICS
            ]
            charts += [percentile_chart(key, suffix, providers, own, name) for name in ("time_to_first_token", "inter_token_latency")]
        for group in REPEATED_METRICS[kind]:
            drawn = (_repeats(key, kind, suffix, providers, own, name) for name in group)
            charts.append(next((chart for chart in drawn if chart is not None), None))
        charts.append(_stages(key, kind, suffix, providers, campaign, workload))
    return tuple(c for c in charts if c is not None)


def _repeats(key: str, kind: str, suffix: str, providers: Sequence[str], cards: Sequence[Scorecard], metric: str) -> Chart | None:
    rows = [(c.provider, r) for c in cards if (r := c.row(metric)) is not None and r.value is not None]
    if not rows:
        return None
    shown = common_scale(METRICS[metric].unit, [r.value for _, r in rows], metric)
    data: list[dict[str, Any]] = []
    for provider, row in sorted(rows, reverse=True):
        paint, _, symbol = provider_style(providers, provider)
        value = row.value or 0.0
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [provider],
                "x": [value / shown.factor],
                "width": 0.46,
                "marker": {"color": paint, "opacity": 0.34},
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [((row.high if row.high is not None else value) - value) / shown.factor],
                    "arrayminus": [(value - (row.low if row.low is not None else value)) / shown.factor],
                    "color": "$ink",
                    "thickness": 1.4,
                    "width": 7,
                },
                "hovertemplate": f"{provider}: %{{x:.4g}} {shown.suffix}<extra>median of {row.n}</extra>",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "y": [provider] * len(row.values),
                "x": [v / shown.factor for v in row.values],
                "text": [t.rsplit(".", 1)[-1] for t in row.trials],
                "marker": {"color": paint, "size": 9, "symbol": symbol, "line": {"color": "$paper", "width": 1}},
                "hovertemplate": f"{provider} %{{text}}: %{{x:.4g}} {shown.suffix}<extra></extra>",
            }
        )
    better = {"lower_is_better": "lower is better", "higher_is_better": "higher is better"}[METRICS[metric].direction]
    return Chart(
        name=f"{key}-repeats-{metric}",
        section=kind,
        title=f"{capitalize_first(format_name(metric))}, {better}{suffix}",
        caption="Bar: median over usable repeats; line: interval; marks: the repeats themselves.",
        data=data,
        layout={
            "xaxis": axis(shown.suffix if shown.suffix != "/s" else "requests a second", rangemode="tozero"),
            "yaxis": axis("", type="category", tickangle=0, ticklabelstandoff=8),
            "showlegend": False,
            "bargap": 0.3,
        },
        height=130 + 52 * len(rows),
    )


def _stages(key: str, kind: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str) -> Chart | None:
    totals: dict[str, dict[str, float]] = {}
    for d in campaign.documents:
        if d.trial.workload.name != workload or d.validity.status not in ("valid", "degraded"):
            continue
        for stage in d.stages:
            if stage.phase == "steady":
                own = totals.setdefault(d.trial.provider.name, {})
                own[stage.stage] = own.get(stage.stage, 0.0) + stage.total_s
    totals = {p: t for p, t in totals.items() if sum(t.values()) > 0}
    if not totals:
        return None
    names = list(dict.fromkeys(name for t in totals.values() for name in t))
    rows = [p for p in reversed(providers) if p in totals]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": rows,
            "x": [totals[p].get(name, 0.0) / sum(totals[p].values()) for p in rows],
            "name": format_name(name),
            "marker": {"color": f"$s{i % STAGE_COLOURS}", "line": {"color": "$paper", "width": 1}},
            "hovertemplate": f"%{{y}}<br>{format_name(name)}: %{{x:.1%}}<extra></extra>",
        }
        for i, name in enumerate(names)
    ]
    return Chart(
        name=f"{key}-stages",
        section=kind,
        title=f"Where the time goes{suffix}",
        caption="Share of the steady phase's accounted time in each stage, usable repeats together.",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": axis("", tickformat=".0%", range=[0, 1]),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "legend": {"traceorder": "normal"},
        },
        height=170 + 46 * len(rows),
        wide=True,
    )


_BETTER = {"lower_is_better": ", lower is better", "higher_is_better": ", higher is better"}


def headline_charts(cards: Sequence[Scorecard]) -> tuple[Chart, ...]:
    """A chart for the primary number, each headline and the cost of an outcome, where more than nobody measured it."""
    kind = cards[0].kind
    first = next((c.primary_metric.metric for c in cards if c.primary_metric is not None), None)
    whole = kind == "inference" and all(c.row("inter_token_latency") is None for c in cards)
    groups = [*((first,),) * (first is not None), *(WHOLE_ANSWER_METRICS if whole else HEADLINE_METRICS[kind]), HEADLINE_COSTS[kind]]
    names: dict[str, None] = {}
    for group in groups:
        name = next((n for n in group if n is not None and any((r := c.row(n)) is not None and r.value is not None for c in cards)), None)
        if name is not None:
            names[name] = None
    return tuple(_dots(cards, name) for name in names)


def _dots(cards: Sequence[Scorecard], metric: str) -> Chart:
    providers = [c.provider for c in cards]
    rows: list[tuple[str, Row, float]] = [
        (c.provider, r, r.value) for c in cards if (r := c.row(metric)) is not None and r.value is not None
    ]
    known = METRICS[metric]
    shown = common_scale(known.unit, [v for _, _, v in rows], metric)
    data: list[dict[str, Any]] = []
    for provider, row, value in reversed(rows):
        paint, _, symbol = provider_style(providers, provider)
        low, high = (row.low if row.low is not None else value), (row.high if row.high is not None else value)
        how = f"{format_percent(row.coverage)} interval" if row.coverage is not None else "one repeat: no interval"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "repeats",
                "y": [provider] * len(row.values),
                "x": [v / shown.factor for v in row.values],
                "text": list(row.trials),
                "customdata": [f"/trials/{t}" for t in row.trials],
                "marker": {"color": paint, "size": 7, "opacity": 0.4, "symbol": symbol},
                "hovertemplate": f"%{{x:.4g}} {shown.suffix}<br>%{{text}}<extra></extra>",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": provider,
                "y": [provider],
                "x": [value / shown.factor],
                "marker": {"color": paint, "size": 12, "symbol": symbol, "line": {"color": "$paper", "width": 1.5}},
                "error_x": {
                    "type": "data", "symmetric": False, "color": paint, "thickness": 2, "width": 6,
                    "array": [(high - value) / shown.factor], "arrayminus": [(value - low) / shown.factor],
                },
                "hovertemplate": f"{provider}: %{{x:.4g}} {shown.suffix}<extra>median of {row.n}, {how}</extra>",
            }
        )  # fmt: skip
    statistic = "" if rows[0][1].statistic == "value" else f" {rows[0][1].statistic}"
    return Chart(
        name=f"key {metric}",
        section="workload",
        title=f"{capitalize_first(format_name(metric))}{statistic}{_BETTER.get(known.direction, '')}",
        caption="Large mark: median over usable repeats with its interval; light marks: the repeats, each leads to its trial.",
        data=data,
        layout={
            "xaxis": axis("requests a second" if shown.suffix == "/s" else shown.suffix or known.unit),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
            "hovermode": "closest",
        },
        height=110 + 46 * len(rows),
    )
