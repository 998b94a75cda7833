"""Charts of scorecards, providers side by side, and the list of a report's charts."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.scorecards.scorecard import Row, Scorecard
from plumbline.metrics import METRICS, leading, leading_names, metric_of
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name, format_percent
from plumbline.presentation.chart_evidence import ChartEvidence
from plumbline.presentation.charts.chart import (
    BETTER,
    PAPER,
    STAGE_COLOURS,
    Chart,
    Part,
    axis,
    bars,
    categories,
    error_bars,
    marks,
    provider_style,
)
from plumbline.presentation.charts.inference import (
    LATENCIES,
    PHASE_CURVES,
    latency_distribution_chart,
    percentile_chart,
    phase_curve_chart,
)
from plumbline.presentation.charts.training import run_charts, step_time_chart
from plumbline.presentation.series_summary import HEADLINE_GROUPS

REPEATED_METRICS = 2
"""Leading metrics of which the repeats are drawn."""


def campaign_charts(campaign: CampaignData, cards: Sequence[Scorecard], evidence: ChartEvidence) -> tuple[Chart, ...]:
    """Every chart that the data allows, in the order of the report; the section is the workload's kind."""
    providers = sorted({c.provider for c in cards})
    charts: list[Chart | None] = []
    for kind, workload in sorted({(c.kind, c.workload) for c in cards}, key=lambda k: (k[0] != "training", k[1])):
        workload_cards = [c for c in cards if (c.kind, c.workload) == (kind, workload)]
        suffix = f", {workload}" if len({c.workload for c in cards if c.kind == kind}) > 1 else ""
        key = f"{kind}-{workload}"
        if kind == "training":
            charts.append(step_time_chart(key, suffix, providers, [r for r in evidence.runs if r.workload == workload]))
            charts += run_charts(key, suffix, providers, campaign, workload)
        else:
            specs = (d.trial.workload for d in campaign.documents if d.trial.workload.name == workload)
            slo = next((served.slo for w in specs if (served := w.serving) is not None), None)
            latencies = [r for r in evidence.latencies if r.workload == workload]
            charts += [latency_distribution_chart(key, suffix, providers, latencies, name, getattr(slo, name, None)) for name in LATENCIES]
            for quantities in PHASE_CURVES:
                curve_charts = (phase_curve_chart(key, suffix, providers, campaign.usable, workload, *quantity) for quantity in quantities)
                charts.append(next((chart for chart in curve_charts if chart is not None), None))
            charts.append(percentile_chart(key, suffix, providers, workload_cards, "time_to_first_token"))
            # Results of earlier versions have no time_per_output_token.
            token_time_charts = (
                percentile_chart(key, suffix, providers, workload_cards, name) for name in ("time_per_output_token", "inter_token_latency")
            )
            charts.append(next((chart for chart in token_time_charts if chart is not None), None))
        for group in leading(kind)[:REPEATED_METRICS]:
            repeats_charts = (_repeats_chart(key, kind, suffix, providers, workload_cards, name) for name in group)
            charts.append(next((chart for chart in repeats_charts if chart is not None), None))
        charts.append(_stages_chart(key, kind, suffix, providers, campaign, workload))
    return tuple(c for c in charts if c is not None)


def _measured_rows(cards: Sequence[Scorecard], metric: str) -> list[tuple[str, Row, float]]:
    return [(c.provider, r, r.value) for c in cards if (r := c.row(metric)) is not None and r.value is not None]


def _interval(row: Row, value: float, scale: Scale, colour: str, **attributes: float) -> Part:
    return error_bars([value], [row.low], [row.high], scale.factor, colour, **attributes)


def _unit(scale: Scale) -> str:
    return "requests per second" if scale.suffix == "/s" else scale.suffix


def _repeats_chart(key: str, kind: str, suffix: str, providers: Sequence[str], cards: Sequence[Scorecard], metric: str) -> Chart | None:
    rows = _measured_rows(cards, metric)
    if not rows:
        return None
    scale = common_scale(METRICS[metric].unit, [value for *_, value in rows], metric)
    data = []
    for provider, row, value in sorted(rows, reverse=True, key=lambda r: r[0]):
        colour, _, symbol = provider_style(providers, provider)
        error = _interval(row, value, scale, "$ink", width=7)
        hover = f"{provider}: %{{x:.4g}} {scale.suffix}<extra>median of {row.n}</extra>"
        data.append(bars([provider], [value / scale.factor], colour, hover, width=0.46, marker={"opacity": 0.34}, error_x=error))
        x, names = [v / scale.factor for v in row.values], [t.rsplit(".", 1)[-1] for t in row.trials]
        hover = f"{provider} %{{text}}: %{{x:.4g}} {scale.suffix}"
        data.append(marks(x, [provider] * len(x), colour, hover, symbol=symbol, marker={"line": PAPER}, text=names))
    return Chart(
        name=f"{key}-repeats-{metric}",
        section=kind,
        title=f"{capitalize_first(format_name(metric))}{BETTER[METRICS[metric].direction]}{suffix}",
        caption="Bar: median over usable repeats; line: interval; marks: repeats.",
        data=data,
        layout={
            "xaxis": axis(_unit(scale), rangemode="tozero"),
            "yaxis": categories(tickangle=0),
            "showlegend": False,
            "bargap": 0.3,
        },
        height=130 + 52 * len(rows),
    )


def _stages_chart(key: str, kind: str, suffix: str, providers: Sequence[str], campaign: CampaignData, workload: str) -> Chart | None:
    totals: dict[str, dict[str, float]] = {}
    for d in campaign.documents:
        if d.trial.workload.name == workload and d.validity.status in ("valid", "degraded"):
            for stage in d.stages:
                if stage.phase == "steady":
                    stage_totals = totals.setdefault(d.trial.provider.name, {})
                    stage_totals[stage.stage] = stage_totals.get(stage.stage, 0.0) + stage.total_s
    totals = {p: t for p, t in totals.items() if sum(t.values()) > 0}
    if not totals:
        return None
    rows = [p for p in reversed(providers) if p in totals]
    data = []
    for i, stage_name in enumerate(dict.fromkeys(name for t in totals.values() for name in t)):
        shares, name = [totals[p].get(stage_name, 0.0) / sum(totals[p].values()) for p in rows], format_name(stage_name)
        data.append(bars(rows, shares, f"$s{i % STAGE_COLOURS}", f"%{{y}}<br>{name}: %{{x:.1%}}", name=name, marker={"line": PAPER}))
    return Chart(
        name=f"{key}-stages",
        section=kind,
        title=f"Time by stage{suffix}",
        caption="Share of the steady phase's accounted time in each stage, usable repeats pooled.",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": axis("", tickformat=".0%", range=[0, 1]),
            "yaxis": categories(),
            "legend": {"traceorder": "normal"},
        },
        height=170 + 46 * len(rows),
        wide=True,
    )


def headline_charts(cards: Sequence[Scorecard]) -> tuple[Chart, ...]:
    """A chart for the primary metric, each headline metric and the unit cost, where a card has a value."""
    kind = cards[0].kind
    first = next((c.primary_metric.metric for c in cards if c.primary_metric is not None), None)
    is_whole_answer = kind == "inference" and all(c.row("inter_token_latency") is None for c in cards)
    groups = [
        *((first,),) * (first is not None),
        *leading("whole_answer" if is_whole_answer else kind)[:HEADLINE_GROUPS],
        leading_names(f"{kind}_cost"),
    ]
    measured = (next((n for n in group if n is not None and _measured_rows(cards, n)), None) for group in groups)
    return tuple(_dot_chart(cards, name) for name in dict.fromkeys(measured) if name is not None)


def _dot_chart(cards: Sequence[Scorecard], metric: str) -> Chart:
    providers = [c.provider for c in cards]
    rows = _measured_rows(cards, metric)
    definition = metric_of(rows[0][1])
    scale = common_scale(definition.unit, [v for _, _, v in rows], metric)
    data = []
    for provider, row, value in reversed(rows):
        colour, _, symbol = provider_style(providers, provider)
        x, links = [v / scale.factor for v in row.values], [f"/trials/{t}" for t in row.trials]
        hover = f"%{{x:.4g}} {scale.suffix}<br>%{{text}}"
        light: Part = {"size": 7, "symbol": symbol, "marker": {"opacity": 0.4}, "name": "repeats"}
        data.append(marks(x, [provider] * len(x), colour, hover, text=list(row.trials), customdata=links, **light))
        interval = f"{format_percent(row.coverage)} interval" if row.coverage is not None else "one repeat: no interval"
        hover = f"{provider}: %{{x:.4g}} {scale.suffix}<extra>median of {row.n}, {interval}</extra>"
        large: Part = {"size": 12, "symbol": symbol, "marker": {"line": {"color": "$paper", "width": 1.5}}, "name": provider}
        error = _interval(row, value, scale, colour, thickness=2, width=6)
        data.append(marks([value / scale.factor], [provider], colour, hover, error_x=error, **large))
    statistic = "" if rows[0][1].statistic == "value" else f" {rows[0][1].statistic}"
    return Chart(
        name=f"key {metric}",
        section="workload",
        title=f"{capitalize_first(format_name(metric))}{statistic}{BETTER.get(definition.direction, '')}",
        caption="Large mark: median over usable repeats with its interval. Light marks: repeats, linked to their trials.",
        data=data,
        layout={"xaxis": axis(_unit(scale) or definition.unit), "yaxis": categories(), "showlegend": False, "hovermode": "closest"},
        height=110 + 46 * len(rows),
    )
