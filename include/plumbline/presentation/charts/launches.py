"""Launch success and lead time of a provider by campaign, as rows and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from plumbline.archive.trends import LaunchCounts
from plumbline.declarations.promises.judging.launches import NOT_STARTED, UNPROVEN, launch_share
from plumbline.declarations.promises.judging.row import format_interval
from plumbline.metrics.formatting import common_scale, format_name, format_percent
from plumbline.presentation.charts.chart import Chart, Part, axis, error_bars, line, marks, plotly_time


@dataclass(frozen=True)
class LaunchLine:
    """One campaign as text; `refused`: failure classes of launches that the provider did not deliver, with counts; `unproven`: those whose cause
    is not proven, which are in no share."""

    campaign_id: str
    day: str
    launches: str
    ratio: str
    interval: str
    refused: str
    unproven: str
    lead_time: str


def launch_lines(counts: Sequence[LaunchCounts]) -> tuple[LaunchLine, ...]:
    """Newest first."""
    unit = common_scale("s", [t for c in counts for t in c.lead_times], "provisioning_lead_time")
    lines = []
    for c in reversed(counts):
        share = launch_share(c.ended)
        lines.append(
            LaunchLine(
                campaign_id=c.campaign_id,
                day=c.planned_at.strftime("%Y-%m-%d"),
                launches=f"{share.successes} of {share.n}",
                ratio=format_percent(share.ratio, 1),
                interval=format_interval(share) or "–",
                refused=_causes(c, NOT_STARTED) or "–",
                unproven=_causes(c, UNPROVEN),
                lead_time=unit.text(median(c.lead_times)) if c.lead_times else "–",
            )
        )
    return tuple(lines)


def _causes(counts: LaunchCounts, classes: frozenset[str]) -> str:
    """Most frequent first; empty without one."""
    found = sorted(((n, str(cause)) for cause, n in counts.ended.items() if cause in classes), reverse=True)
    return ", ".join(f"{n} × {format_name(cause)}" for n, cause in found)


def launch_chart(counts: Sequence[LaunchCounts], promised: float | None) -> Chart | None:
    """Launch success by campaign with its Wilson interval; None without launches."""
    campaign_ratios = [(c, s, ratio) for c in counts for s in (launch_share(c.ended),) if (ratio := s.ratio) is not None]
    if not campaign_ratios:
        return None
    x, ratios = [plotly_time(c.planned_at) for c, *_ in campaign_ratios], [ratio for *_, ratio in campaign_ratios]
    error = error_bars(ratios, [s.low for _, s, _ in campaign_ratios], [s.high for _, s, _ in campaign_ratios], 1, "$p0", width=5)
    text = [f"{c.campaign_id}: {s.successes} of {s.n}" for c, s, _ in campaign_ratios]
    links = [f"/campaigns/{c.campaign_id}" for c, *_ in campaign_ratios]
    hover = "%{text}<br>%{y:.1%}"
    data = [marks(x, ratios, "$p0", hover, name="successful launches", text=text, customdata=links, error_y=error)]
    if promised is not None:
        data.append(_promise(x, promised, f"promised {format_percent(promised, 1)}"))
    return Chart(
        name="launch success",
        section="provider",
        title="Launch success, higher is better",
        caption="Share of launches whose harness started, over all workloads, without failures that are not proven to be the provider's; bars: 95 % Wilson interval.",
        data=data,
        layout={"xaxis": axis("", type="date"), "yaxis": axis("", tickformat=".0%", rangemode="tozero", range=[0, 1.04])},
    )


def lead_time_chart(counts: Sequence[LaunchCounts], promised_s: float | None) -> Chart | None:
    """Provisioning lead time, each launch a mark; None without a measured one."""
    with_lead_times = [c for c in counts if c.lead_times]
    if not with_lead_times:
        return None
    unit = common_scale("s", [*(t for c in with_lead_times for t in c.lead_times), promised_s])
    launch_times = [(c, t / unit.factor) for c in with_lead_times for t in c.lead_times]
    x, medians = [plotly_time(c.planned_at) for c in with_lead_times], [median(c.lead_times) / unit.factor for c in with_lead_times]
    data = [
        marks(
            [plotly_time(c.planned_at) for c, _ in launch_times],
            [t for _, t in launch_times],
            "$p0",
            f"%{{text}}<br>%{{y:.4g}} {unit.suffix}",
            name="launches",
            text=[c.campaign_id for c, _ in launch_times],
            customdata=[f"/campaigns/{c.campaign_id}" for c, _ in launch_times],
            size=6,
            marker={"opacity": 0.35},
        ),
        line(
            x, medians, "$p0", f"median %{{y:.4g}} {unit.suffix}", name="median", mode="lines+markers", marker={"color": "$p0", "size": 8}
        ),
    ]
    if promised_s is not None:
        data.append(_promise(x, promised_s / unit.factor, f"promised {unit.text(promised_s)}"))
    return Chart(
        name="lead time",
        section="provider",
        title="Provisioning lead time, lower is better",
        caption="Time from the request of a trial to its running process. Marks: launches; line: medians of campaigns.",
        data=data,
        layout={"xaxis": axis("", type="date"), "yaxis": axis(unit.suffix, rangemode="tozero")},
    )


def _promise(x: Sequence[str], level: float, name: str) -> Part:
    return line([min(x), max(x)], [level, level], "$bad", width=1.6, dash="dash", name=name)
