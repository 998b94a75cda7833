"""The cost of each way to pay by how much of the capacity is used, with the points at which another one becomes the cheapest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plumbline.analysis.cost.payment_options import PaymentOptions, costs_by_utilisation
from plumbline.metrics.formatting import common_scale, format_percent
from plumbline.presentation.charts.chart import DASHES, PROVIDER_COLOURS, Chart, axis, line, marks, significant

_POINTS = 101
_LEFT, _RIGHT = 0.2, 0.8


def owning_chart(provider: str, workload: str, ways: PaymentOptions) -> Chart:
    """USD a month over the share of the capacity. A break-even is a mark on the line of the way that is cheapest from there on."""
    shares = np.linspace(1 / 1000, 1.0, _POINTS).tolist()  # what is paid whole costs its month from the first request on
    costs = costs_by_utilisation(ways, shares)
    scale = common_scale("USD", [cost for own in costs for cost in own])
    names = [option.name for option in ways.options]
    data = [
        line(
            [significant(100 * share) for share in shares],
            [significant(cost / scale.factor) for cost in own],
            f"$p{i % PROVIDER_COLOURS}",
            f"{name}: %{{y:,.4g}} {scale.suffix} at %{{x:.3g}} %",
            dash=DASHES[i % len(DASHES)],
            name=name,
        )
        for i, (name, own) in enumerate(zip(names, costs, strict=True))
    ]
    evens = [(name, low) for name, low, _ in ways.spans if low > 0]
    at = {low: costs_by_utilisation(ways, [low]) for _, low in evens}
    for name, low in evens:
        y = at[low][names.index(name)][0]
        mark = marks(
            [significant(100 * low)],
            [significant(y / scale.factor)],
            "$ink",
            f"from {format_percent(low, 1)} on {name} is cheapest: {scale.text(y)} a month",
            size=10,
            symbol="x",
            showlegend=False,
        )
        side = "top right" if low < _LEFT else "top left" if low > _RIGHT else "top center"
        data.append({**mark, "mode": "markers+text", "text": [format_percent(low, 1)], "textposition": side, "textfont": {"color": "$ink"}})
    return Chart(
        name=f"{workload}-{provider}-owning",
        section="owning",
        title=f"USD a month by use, {workload} on {provider}",
        caption=f"Use: share of {ways.capacity:,.0f} requests a month. {_crossings(evens)} What is owned or reserved is paid whole.",
        data=data,
        layout={"xaxis": axis("use, %", range=[0, 100]), "yaxis": axis(scale.suffix, rangemode="tozero"), "hovermode": "closest"},
        height=380,
        wide=True,
    )


def _crossings(evens: Iterable[tuple[str, float]]) -> str:
    found = [f"{name} from {format_percent(low, 1)} on" for name, low in evens]
    return f"Crosses: where another way becomes cheapest ({', '.join(found)})." if found else "One way is cheapest at any use."
