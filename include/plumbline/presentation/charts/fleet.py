"""Cost against speed of every provider on one workload, with the Pareto line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.analysis.fleet import CostUnit, FleetSeries, Number, leading_number, pooled, pooled_costs, unit_of
from plumbline.analysis.scorecards.pooling import Pooled
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_name
from plumbline.presentation.charts.chart import BETTER, PAPER, Chart, axis, error_bars, label_places, line, marks, significant


def pareto(points: Mapping[str, tuple[float, float]], lower_is_better: bool) -> tuple[str, ...]:
    """Providers that no other one beats on both cost and speed, cheapest first. `points`: (cost, speed)."""
    sign = 1 if lower_is_better else -1
    found: list[str] = []
    best = float("inf")
    for name in sorted(points, key=lambda p: (points[p][0], sign * points[p][1], p)):
        if sign * points[name][1] < best:
            best = sign * points[name][1]
            found.append(name)
    return tuple(found)


def cost_against_speed_chart(own: Sequence[FleetSeries], first: Number | None, per: CostUnit = "token") -> Chart | None:
    """A mark for each provider of one workload that has both numbers; None for fewer than two."""
    if not own:
        return None
    metric, statistic, phase = leading_number(own, first)
    speeds = pooled(own, metric, statistic, phase)
    cost_metric, costs = pooled_costs(own, per)
    both = sorted(speeds.keys() & costs.keys())
    if len(both) < 2:
        return None
    known = METRICS[metric]
    fast = common_scale(known.unit, [speeds[p].value for p in both], metric)
    cheap = common_scale(unit_of(cost_metric), [costs[p].value for p in both], cost_metric)
    front = pareto({p: (costs[p].value, speeds[p].value) for p in both}, known.direction == "lower_is_better")

    def at(name: str) -> tuple[float | None, float | None]:
        return significant(costs[name].value / cheap.factor), significant(speeds[name].value / fast.factor)

    def bars(numbers: Mapping[str, Pooled], names: Sequence[str], factor: float) -> dict[str, object]:
        found = [numbers[p] for p in names]
        return error_bars([n.value for n in found], [n.low for n in found], [n.high for n in found], factor, "$faint", width=0, thickness=1)

    corners = [at(p) for p in front]
    data = [line([x for x, _ in corners], [y for _, y in corners], "$accent", dash="dot", name="Pareto line")] if len(front) > 1 else []
    rest = [p for p in both if p not in front]
    places = dict(zip(both, label_places([costs[p].value for p in both]), strict=True))
    for names, colour, size, label in ((rest, "$faint", 8, "beaten on both"), (list(front), "$accent", 12, "not beaten")):
        if names:
            x, y = zip(*(at(p) for p in names), strict=True)
            data.append(
                marks(
                    x, y, colour, f"%{{text}}<br>%{{x:.4g}} {cheap.suffix}<br>%{{y:.4g}} {fast.suffix}", size=size,
                    marker={"line": PAPER}, text=names, customdata=[f"/providers/{p}" for p in names], name=label,
                    error_x=bars(costs, names, cheap.factor), error_y=bars(speeds, names, fast.factor),
                    **({"mode": "markers+text", "textposition": [places[p] for p in names], "cliponaxis": False} if label == "not beaten" else {}),
                )
            )  # fmt: skip
    return Chart(
        name="cost-against-speed",
        section="overview",
        title=f"{own[0].workload}: {format_name(metric)} against cost",
        caption="Mark: median over usable repeats, linked to its provider; lines: intervals. No provider is cheaper and faster than one of the "
        "Pareto line.",
        data=data,
        layout={
            "xaxis": axis(f"{format_name(cost_metric)}, {cheap.suffix}{BETTER['lower_is_better']}"),
            "yaxis": axis(f"{fast.suffix}{BETTER.get(known.direction, '')}"),
            "hovermode": "closest",
        },
        height=420,
        wide=True,
    )
