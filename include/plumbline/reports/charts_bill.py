"""A campaign's bill as a chart: what each provider was paid for."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.prices.bill import ITEMS
from plumbline.reports.bills import ProviderCost
from plumbline.reports.chart import STAGE_COLOURS, Chart, axis
from plumbline.reports.figures import words

_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\", "")
"""Items are told apart without colours too."""


def bill_chart(costs: Sequence[ProviderCost]) -> Chart | None:
    """Cost per finished run by provider and kind, stacked by item; None if there is no finished run with a price anywhere."""
    known = [c for c in costs if c.per_finished_run is not None]
    if not known:
        return None
    currency = known[0].bill.total.currency if known[0].bill.total else "USD"
    names = [c.label for c in reversed(known)]
    data = []
    for i, item in enumerate(ITEMS):
        amounts = [None if (m := c.bill.of(item)) is None else m.amount / c.finished for c in reversed(known)]
        if any(amount is not None for amount in amounts):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": names,
                    "x": [None if amount is None else float(f"{amount:.6g}") for amount in amounts],
                    "name": words(item),
                    "marker": {
                        "color": f"$s{i % STAGE_COLOURS}",
                        "line": {"color": "$paper", "width": 1},
                        "pattern": {
                            "shape": _PATTERNS[i % len(_PATTERNS)],
                            "fillmode": "overlay",
                            "fgcolor": "$paper",
                            "size": 7,
                            "solidity": 0.15,
                        },
                    },
                    "hovertemplate": f"%{{y}}<br>{words(item)}: %{{x:.4g}} {currency} a finished run<extra></extra>",
                }
            )
    lacking = sorted({words(u.item) for c in known for u in c.bill.unknown})
    without = f" Not in it, since it is not known everywhere: {', '.join(lacking)}." if lacking else ""
    return Chart(
        name="cost-bill",
        section="cost",
        title="What a finished run was paid for",
        caption=f"Everything on the bill over the runs that finished, failed attempts included.{without}",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": axis(f"{currency} a finished run", rangemode="tozero", exponentformat="none"),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "legend": {"traceorder": "normal"},
        },
        height=170 + 46 * len(known),
        wide=True,
    )
