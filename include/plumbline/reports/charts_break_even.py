"""Charts of where two ways to pay cost the same: spot and on demand, one's own model and a hosted one."""

from __future__ import annotations

from typing import Any

import numpy as np

from plumbline.prices.spot import spot_cost
from plumbline.prices.trial_bill import MONTH_H
from plumbline.reports.chart import DASHES, Chart, axis, log_axis, rounded
from plumbline.reports.figures import Scale, scale, sentence
from plumbline.reports.outlook_hosted import HostedOutlook
from plumbline.reports.outlook_spot import SpotOutlook

SECTION = "cost"
_POINTS = 81
_LINE = {"color": "$ink", "width": 1.4, "dash": "dot"}


def spot_chart(s: SpotOutlook) -> Chart | None:
    """A finished run over the rate of interruptions, spot against on demand; None where it could not be reckoned."""
    if s.cost is None or s.run is None or s.on_demand_per_hour is None or s.spot_per_hour is None or s.per_hour is None:
        return None
    even = s.cost.break_even
    low, high = s.per_hour / 10, max(3 * s.per_hour, 2 * even if even is not None else 30 * s.per_hour)
    rates = np.geomspace(low, high, _POINTS)
    costs = np.array([spot_cost(s.run, s.on_demand_per_hour, s.spot_per_hour, float(rate)).spot for rate in rates])
    seen = np.isfinite(costs) & (costs <= 3 * s.cost.on_demand)  # beyond, a run practically never ends
    shown = scale("USD", [s.cost.on_demand, s.cost.spot])
    marks = [("declared", s.per_hour, s.cost.spot, "diamond")] + ([("break-even", even, s.cost.on_demand, "x")] if even else [])
    data: list[dict[str, Any]] = [
        _curve("spot", rates[seen], costs[seen] / shown.factor, "$p0", "solid", "interruptions an hour", shown),
        _curve("on demand", rates[[0, -1]], np.full(2, s.cost.on_demand / shown.factor), "$p1", "dash", "interruptions an hour", shown),
        *(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": name,
                "x": [float(f"{x:.6g}")],
                "y": [float(f"{y / shown.factor:.6g}")],
                "text": [f"{name}: {x:.3g}/h, {shown.text(y)}"],
                "textposition": "bottom right" if name == "declared" else "top left",
                "textfont": {"color": "$ink"},
                "marker": {"color": "$ink", "size": 10, "symbol": symbol},
                "showlegend": False,
                "hovertemplate": f"{name}: %{{x:.3g}}/h, %{{y:,.4g}} {shown.suffix}<extra></extra>",
            }
            for name, x, y, symbol in marks
        ),
    ]
    return Chart(
        name=f"training-{s.workload}-{s.provider}-spot",
        section=SECTION,
        title=f"A finished run on spot, {s.workload} on {s.provider}",
        caption=f"{sentence(s.run_basis)}; {s.restart_basis}. {sentence(s.cost.why)}. Waiting for capacity makes a run later, not dearer, and is not in it.",
        data=data,
        layout={
            "xaxis": log_axis("interruptions an hour (log scale)", rates.tolist()),
            "yaxis": axis(shown.suffix, rangemode="tozero"),
            "hovermode": "closest",
        },
    )


def volume_chart(h: HostedOutlook) -> Chart | None:
    """Cost a month over the monthly volume: one's own at its lowest, expected and highest utilisation, and each hosted model."""
    own, priced = h.own, [(b, b.per_request) for b in h.against if b.per_request is not None]
    if own is None or not priced:
        return None
    evens = [b.volume.value for b, _ in priced if b.volume is not None and b.volume.value]
    top = 1.6 * max([*evens, h.volume or 0.0]) or 2 * own.rate * 3600 * MONTH_H
    volumes = np.linspace(0.0, top, _POINTS)
    shares = {h.expected: "own"} if h.utilisation is None else _shares(h)
    lines = [(name, np.array([own.monthly(float(v), share) for v in volumes]), "$p0") for share, name in shares.items()]
    lines += [(b.hosted.name, volumes * each, f"$p{1 + i % 7}") for i, (b, each) in enumerate(priced)]
    shown = scale("USD", [float(np.max(values)) for _, values, _ in lines])
    data = [
        _curve(name, volumes, values / shown.factor, paint, DASHES[i % len(DASHES)], "requests a month", shown)
        for i, (name, values, paint) in enumerate(lines)
    ]
    for b, each in priced:
        if b.volume is not None and b.volume.value:
            data.append(_even(f"break-even with {b.hosted.name}", b.volume.value, b.volume.value * each / shown.factor, shown))
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-volume",
        section=SECTION,
        title=f"One's own or hosted, by monthly volume, {h.workload} on {h.provider}",
        caption=" ".join(f"{b.hosted.name}: {b.volume.sentence}." for b, _ in priced if b.volume is not None)
        + f" Rate {h.rate}."
        + ("" if h.volume is None else " Dotted: the declared volume."),
        data=data,
        layout={
            "xaxis": axis("requests a month", rangemode="tozero", tickformat="~s"),
            "yaxis": axis(f"{shown.suffix} a month", rangemode="tozero", tickformat=",~s"),
            "hovermode": "closest",
            "shapes": [] if h.volume is None else [_upright(h.volume)],
        },
    )


def utilisation_chart(h: HostedOutlook) -> Chart | None:
    """Cost a month at the declared volume over the utilisation; None without a declared volume."""
    own, volume = h.own, h.volume
    priced = [(b, b.per_request) for b in h.against if b.per_request is not None]
    if own is None or volume is None or not priced:
        return None
    shares = np.linspace(0.05, 1.0, _POINTS)
    costs = np.array([own.monthly(volume, float(share)) for share in shares])
    shown = scale("USD", [float(np.median(costs))])
    data = [_curve("own", 100 * shares, costs / shown.factor, "$p0", "solid", "% utilisation", shown)]
    for i, (b, each) in enumerate(priced):
        level = np.full(2, volume * each / shown.factor)
        data.append(_curve(b.hosted.name, 100 * shares[[0, -1]], level, f"$p{1 + i % 7}", DASHES[1 + i % 7], "% utilisation", shown))
        if b.utilisation is not None and b.utilisation.value is not None:
            data.append(_even(f"break-even with {b.hosted.name}", 100 * b.utilisation.value, float(level[0]), shown))
    told = " ".join(f"{b.hosted.name}: {b.utilisation.sentence}." for b, _ in priced if b.utilisation is not None)
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-utilisation",
        section=SECTION,
        title=f"One's own or hosted, by utilisation, {h.workload} on {h.provider}",
        caption=f"At {volume:,.0f} requests a month. {told}{'' if h.utilisation is None else ' Dotted: the expected utilisation.'}",
        data=data,
        layout={
            "xaxis": axis("utilisation", ticksuffix=" %", range=[0, 102]),
            "yaxis": axis(f"{shown.suffix} a month", rangemode="tozero", tickformat=",~s"),
            "hovermode": "closest",
            "shapes": [_upright(100 * h.expected)] if h.utilisation is not None else [],
        },
    )


def _shares(h: HostedOutlook) -> dict[float, str]:
    span = h.utilisation
    assert span is not None
    return {share: f"own at {share:.0%} utilisation" for share in dict.fromkeys((span.expected, span.low, span.high))}


def _curve(name: str, x: Any, y: Any, paint: str, dash: str, along: str, shown: Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": rounded(np.asarray(x, dtype=np.float64)),
        "y": rounded(np.asarray(y, dtype=np.float64)),
        "line": {"color": paint, "width": 2.2, "dash": dash},
        "hovertemplate": f"{name}<br>%{{x:,.4g}} {along}: %{{y:,.4g}} {shown.suffix}<extra></extra>",
    }


def _even(name: str, x: float, y: float, shown: Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [float(f"{x:.6g}")],
        "y": [float(f"{y:.6g}")],
        "marker": {"color": "$ink", "size": 10, "symbol": "x"},
        "showlegend": False,
        "hovertemplate": f"{name}: %{{x:,.4g}}, %{{y:,.4g}} {shown.suffix}<extra></extra>",
    }


def _upright(x: float) -> dict[str, Any]:
    """A dotted line at what was declared."""
    return {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": _LINE}
