"""The status strip of the first page: findings, money, the best switch, states, age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.alerts.monthly_cost import monthly_cost
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.archive import Archive, DecisionView, FindingView
from plumbline.declarations import Declarations
from plumbline.metrics.formatting import format_name, format_probability
from plumbline.presentation.decisions import name_stored_first
from plumbline.presentation.heat_map import SeriesStatus
from plumbline.presentation.series_states import ORDER
from plumbline.presentation.series_summary import format_age
from plumbline.results.finding import Finding


@dataclass(frozen=True)
class Tile:
    """One number of the status strip: `tone` is good, warn, bad or empty."""

    name: str
    value: str
    note: str
    link: str
    tone: str = ""


def status_tiles(
    archive: Archive,
    declared: Declarations,
    unsettled: Sequence[FindingView],
    stored: Sequence[DecisionView],
    status: Mapping[tuple[str, str], SeriesStatus],
    now: datetime,
    money: bool,
) -> tuple[Tile, ...]:
    """The tiles; those about money only with access to it. `unsettled`: open and acknowledged findings; `stored`: newest decisions first."""
    open_ones = [f for f in unsettled if f.state == "open"]
    count = Counter(f.severity for f in open_ones)
    tiles = [
        Tile(
            "Open findings",
            str(len(open_ones)),
            ", ".join(f"{count[s]} {s}" for s in ("page", "warn", "info") if count[s]) or "none",
            "/findings?state=open",
            "bad" if count["page"] else "warn" if count["warn"] else "good",
        )
    ]
    if money:
        tiles += [_money_tile(archive, declared, unsettled), *_switch_tile(stored)]
    states = Counter(own.state.name for own in status.values())
    newest = max((own.planned_at for own in status.values()), default=None)
    words = ", ".join(f"{states[name]} {format_name(name)}" for name in ORDER if states[name])
    tiles.append(Tile("Series", str(len(status)), words or "no results", "/?view=drift", "warn" if states["drifted"] else ""))
    age = format_age(newest, now) if newest else "never"
    tiles.append(
        Tile("Newest results", age, f"{states['stale']} of {len(status)} series stale", "/?view=age", "warn" if states["stale"] else "")
    )
    return tuple(tiles)


def _money_tile(archive: Archive, declared: Declarations, unsettled: Sequence[FindingView]) -> Tile:
    """What unsettled findings cost or save a month, at the declared volumes."""
    names = sorted({f.provider for f in unsettled} & declared.providers.keys())
    priced = all_with_effective_prices((declared.providers[n] for n in names), archive.prices(names)) if names else {}
    known, unknown = [], 0
    for view in unsettled:
        if view.kind not in ("performance", "price"):
            continue
        try:
            cost = monthly_cost(Finding.of(view.detail), declared.alerts, priced.get(view.provider), view.opened_at.date())
        except (KeyError, ValueError):
            continue
        if cost.usd is not None:
            known.append(cost.usd)
        unknown += cost.usd is None and bool(cost.text)
    rest = f"{unknown} without a declared volume" if unknown else f"{len(known)} finding{'s' * (len(known) != 1)}"
    if not known:
        return Tile("Lost a month", "–", rest if unknown else "no finding costs money", "/findings?state=open")
    total = sum(known)
    name = "Saved a month" if total < 0 else "Lost a month"
    return Tile(name, f"{abs(total):,.0f} USD", rest, "/findings?state=open", "good" if total < 0 else "bad")


def _switch_tile(stored: Sequence[DecisionView]) -> list[Tile]:
    """The surest of each choice's newest decisions that moved to another provider."""
    newest: dict[tuple[str, ...], DecisionView] = {}
    for view in reversed(stored):
        newest[(view.team, view.kind, *view.detail.get("workloads", ()))] = view
    moved = [v for v in newest.values() if v.detail.get("instead_of") and v.winner and name_stored_first(v) == v.winner]
    best = max(moved, key=lambda v: v.probability or 0.0, default=None)
    if best is None:
        return [Tile("Best switch", "none", "no first choice changed with a clear winner", "/decisions", "good")]
    old = str(best.detail["instead_of"])
    saving = _saving(best, old)
    note = f"instead of {old}, team {best.team}{saving}; P(first) {format_probability(best.probability)}"
    return [Tile("Best switch", best.winner or "", note, f"/decisions/{best.team}/{best.kind}", "warn")]


def _saving(view: DecisionView, old: str) -> str:
    """How much less the new first one costs for an outcome, of the first workload that tells."""
    for answer in view.detail.get("cheapest", ()):
        costs = {setup["provider"]: setup["cost"] for setup in answer["setups"] if setup["cost"]}
        if view.winner in costs and old in costs:
            change = costs[view.winner] / costs[old] - 1
            return f", {'saves' if change < 0 else 'costs'} {100 * abs(change):.0f} %{'' if change < 0 else ' more'} per outcome"
    return ""
