"""Launch success and lead time of a provider by campaign, as rows and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from plumbline.analysis.scorecards.provisioning import NOT_STARTED, OPERATOR_FAULTS
from plumbline.archive.pages import LaunchCounts
from plumbline.metrics.formatting import common_scale, format_name, format_percent
from plumbline.metrics.proportions import Proportion, wilson_interval
from plumbline.presentation.charts.chart import Chart, axis
from plumbline.presentation.charts.trend import plotly_time


@dataclass(frozen=True)
class LaunchLine:
    """One campaign in words; `refused`: what kept launches from starting, with how often."""

    campaign_id: str
    day: str
    launches: str
    ratio: str
    interval: str
    refused: str
    lead_time: str


def launch_success(counts: LaunchCounts) -> Proportion:
    """Launches that succeeded, of those that were the provider's to start: what failed by our own fault is none of them."""
    tried = sum(n for cause, n in counts.ended.items() if cause not in OPERATOR_FAULTS)
    return wilson_interval(tried - sum(n for cause, n in counts.ended.items() if cause in NOT_STARTED), tried)


def launch_lines(counts: Sequence[LaunchCounts]) -> tuple[LaunchLine, ...]:
    """Newest first."""
    unit = common_scale("s", [t for c in counts for t in c.lead_times], "provisioning_lead_time")
    lines = []
    for c in reversed(counts):
        share = launch_success(c)
        refused = sorted((n, cause) for cause, n in c.ended.items() if cause in NOT_STARTED)
        lines.append(
            LaunchLine(
                campaign_id=c.campaign_id,
                day=c.planned_at.strftime("%Y-%m-%d"),
                launches=f"{share.successes} of {share.n}",
                ratio=format_percent(share.ratio, 1),
                interval=f"{format_percent(share.low)} … {format_percent(share.high)}" if share.low is not None else "–",
                refused=", ".join(f"{n} × {format_name(str(cause))}" for n, cause in reversed(refused)) or "–",
                lead_time=unit.text(median(c.lead_times)) if c.lead_times else "–",
            )
        )
    return tuple(lines)


def launch_chart(counts: Sequence[LaunchCounts], promised: float | None) -> Chart | None:
    """Share of launches that succeeded, by campaign, with Wilson's interval; None if nothing was launched."""
    shares = [(c, launch_success(c)) for c in counts]
    drawn = [(c, s) for c, s in shares if s.ratio is not None and s.low is not None and s.high is not None]
    if not drawn:
        return None
    x = [plotly_time(c.planned_at) for c, _ in drawn]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "launches that succeeded",
            "x": x,
            "y": [s.ratio for _, s in drawn],
            "text": [f"{c.campaign_id}: {s.successes} of {s.n}" for c, s in drawn],
            "customdata": [f"/campaigns/{c.campaign_id}" for c, _ in drawn],
            "marker": {"color": "$p0", "size": 9},
            "error_y": {
                "type": "data", "symmetric": False, "color": "$p0", "thickness": 1.4, "width": 5,
                "array": [(s.high or 0.0) - (s.ratio or 0.0) for _, s in drawn],
                "arrayminus": [(s.ratio or 0.0) - (s.low or 0.0) for _, s in drawn],
            },
            "hovertemplate": "%{text}<br>%{y:.1%}<extra></extra>",
        }
    ]  # fmt: skip
    if promised is not None:
        data.append(_promise(x, promised, f"promised {format_percent(promised, 1)}"))
    return Chart(
        name="launch success",
        section="provider",
        title="Launch success, higher is better",
        caption="Launches whose harness started, of all that were the provider's to start, over all its workloads; bars: Wilson's 95 % interval.",
        data=data,
        layout={"xaxis": axis("", type="date"), "yaxis": axis("", tickformat=".0%", rangemode="tozero", range=[0, 1.04])},
    )


def lead_time_chart(counts: Sequence[LaunchCounts], promised_s: float | None) -> Chart | None:
    """From the request to the running process, each launch a mark; None if nobody measured one."""
    timed = [c for c in counts if c.lead_times]
    if not timed:
        return None
    unit = common_scale("s", [*(t for c in timed for t in c.lead_times), promised_s])
    every = [(c, t) for c in timed for t in c.lead_times]
    x = [plotly_time(c.planned_at) for c in timed]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "launches",
            "x": [plotly_time(c.planned_at) for c, _ in every],
            "y": [t / unit.factor for _, t in every],
            "text": [c.campaign_id for c, _ in every],
            "customdata": [f"/campaigns/{c.campaign_id}" for c, _ in every],
            "marker": {"color": "$p0", "opacity": 0.35, "size": 6},
            "hovertemplate": f"%{{text}}<br>%{{y:.4g}} {unit.suffix}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "median",
            "x": x,
            "y": [median(c.lead_times) / unit.factor for c in timed],
            "line": {"color": "$p0", "width": 2},
            "marker": {"color": "$p0", "size": 8},
            "hovertemplate": f"median %{{y:.4g}} {unit.suffix}<extra></extra>",
        },
    ]
    if promised_s is not None:
        data.append(_promise(x, promised_s / unit.factor, f"promised {unit.text(promised_s)}"))
    return Chart(
        name="lead time",
        section="provider",
        title="Provisioning lead time, lower is better",
        caption="From the request for a trial to its process running, each launch a mark; line: medians of campaigns.",
        data=data,
        layout={"xaxis": axis("", type="date"), "yaxis": axis(unit.suffix, rangemode="tozero")},
    )


def _promise(x: Sequence[str], level: float, name: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": [min(x), max(x)], "y": [level, level],
        "line": {"color": "$bad", "width": 1.6, "dash": "dash"}, "hoverinfo": "skip",
    }  # fmt: skip
