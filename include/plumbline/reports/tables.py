"""The report's tables as plain rows of text: everything is chosen and formatted here, templates only lay it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from plumbline.declarations import METRICS, Provider
from plumbline.prices import COSTS, Quote
from plumbline.prices.cost import not_measured
from plumbline.reports.figures import Scale, chance, percent, scale, words
from plumbline.scorecards import Decision, Row, Scorecard, leaders

GROUP_TITLES = {
    "latency": "Latency",
    "throughput": "Throughput",
    "cost": "Cost",
    "reliability": "Reliability",
    "start_up": "Start-up",
    "recovery": "Recovery",
    "hardware": "Hardware and what is made of it",
    "quality": "Outcome",
    "client": "The measuring client",
}
TAILS = ("p90", "p95", "p99")


@dataclass(frozen=True)
class Cell:
    """One provider's number. `left`, `width`, `dot`: the interval on the row's own scale, in percent of its width."""

    value: str
    unit: str
    interval: str
    mark: str  # "best", "tied" or ""
    title: str
    left: float | None = None
    width: float | None = None
    dot: float | None = None


@dataclass(frozen=True)
class TableRow:
    name: str
    meaning: str
    detail: str
    arrow: str
    cells: tuple[Cell, ...]
    minor: bool


@dataclass(frozen=True)
class CardTable:
    """The scorecards of one workload side by side; `missing` says, by provider, why a column has few numbers."""

    kind: str
    workload: str
    version: int
    cards: tuple[Scorecard, ...]
    groups: tuple[tuple[str, tuple[TableRow, ...]], ...]

    @property
    def title(self) -> str:
        return f"{self.workload} v{self.version}"

    @property
    def anchor(self) -> str:
        return f"{self.kind}-{self.workload}-v{self.version}"


def card_tables(cards: Sequence[Scorecard]) -> tuple[CardTable, ...]:
    """One table per kind, workload and version; training before inference, never merged."""

    def identity(card: Scorecard) -> tuple[bool, str, int]:
        return (card.kind != "training", card.workload, card.version)

    tables = []
    for _, group in groupby(sorted(cards, key=identity), key=identity):
        side_by_side = tuple(sorted(group, key=lambda c: c.provider))
        first = side_by_side[0]
        tables.append(CardTable(first.kind, first.workload, first.version, side_by_side, _groups(side_by_side)))
    return tuple(tables)


def _groups(cards: Sequence[Scorecard]) -> tuple[tuple[str, tuple[TableRow, ...]], ...]:
    keys: dict[tuple[str, str, str, str], None] = {}
    for card in cards:
        for row in card.rows:
            if _shown(row) and (row.leading or row.value is not None):
                keys[row.group, row.metric, row.phase, row.statistic] = None
    names, groups = list(METRICS), list(GROUP_TITLES)
    ordered = sorted(keys, key=lambda k: (groups.index(k[0]), names.index(k[1]), not _leads(cards, k), k[2], k[3]))
    found = []
    for group, members in groupby(ordered, key=lambda k: k[0]):
        found.append((GROUP_TITLES[group], tuple(_row(cards, metric, statistic, phase) for _, metric, phase, statistic in members)))
    return tuple(found)


def _shown(row: Row) -> bool:
    """The leading number of each metric and its steady tails; everything else is in the archive and the documents."""
    return row.leading or (row.statistic in TAILS and row.phase == "steady" and row.group == "latency")


def _leads(cards: Sequence[Scorecard], key: tuple[str, str, str, str]) -> bool:
    return any(r.leading for c in cards for r in c.rows if (r.group, r.metric, r.phase, r.statistic) == key)


def _row(cards: Sequence[Scorecard], metric: str, statistic: str, phase: str) -> TableRow:
    rows = {c.provider: c.row(metric, statistic, phase) for c in cards}
    present = [r for r in rows.values() if r is not None and r.value is not None]
    known = METRICS[metric]
    shown = scale(known.unit, [r.value for r in present], metric)
    ahead = leaders(rows)
    # A picture of one number beside nothing would say nothing: no scale then, and so no strip.
    top = max(r.high if r.high is not None else r.value or 0.0 for r in present) if len(present) > 1 else 0.0
    leading = any(r.leading for r in rows.values() if r is not None)
    arrow = {"lower_is_better": "↓", "higher_is_better": "↑"}.get(known.direction, "")
    where = "" if statistic == "value" else statistic
    if known.group == "client":
        ahead = ()  # nobody wins by how the instrument did
    return TableRow(
        name=words(metric),
        meaning=known.meaning,
        detail=" · ".join(part for part in (where, "" if phase == "steady" else words(phase)) if part),
        arrow=arrow,
        cells=tuple(cell(rows[c.provider], shown, top, _mark(c.provider, ahead)) for c in cards),
        minor=not leading,
    )


def _mark(provider: str, ahead: Sequence[str]) -> str:
    return "" if provider not in ahead else "best" if len(ahead) == 1 else "tied"


def cell(row: Row | None, shown: Scale, top: float, mark: str) -> Cell:
    """One number with its interval; an en dash, never a zero, when it was not measured."""
    if row is None or row.value is None:
        return Cell("–", "", "", "", "not measured in any usable trial")
    if row.low is None or row.high is None or row.coverage is None:
        return Cell(shown.number(row.value), shown.suffix, f"n {row.n}", mark, "one repeat: no interval", dot=_at(row.value, top))
    kind = f"{percent(row.coverage)} interval of the median" if row.coverage >= 0.9 else f"range of {row.n} repeats"
    return Cell(
        value=shown.number(row.value),
        unit=shown.suffix,
        interval=f"{shown.number(row.low)} … {shown.number(row.high)}",
        mark=mark,
        title=f"median of {row.n} repeats ({row.observations:,} observations); {kind} (confidence {percent(row.coverage)})",
        left=_at(row.low, top),
        width=max(0.0, (_at(row.high, top) or 0.0) - (_at(row.low, top) or 0.0)),
        dot=_at(row.value, top),
    )


def _at(value: float, top: float) -> float | None:
    return round(100 * min(max(value / top, 0.0), 1.0), 2) if top > 0 else None


@dataclass(frozen=True)
class CostRow:
    name: str
    meaning: str
    kind: str
    workload: str
    cells: tuple[str, ...]
    reasons: tuple[str, ...]


def cost_rows(cards: Sequence[Scorecard], providers: Sequence[str], quotes: Mapping[str, Quote]) -> tuple[CostRow, ...]:
    """What a run and each outcome cost, by provider; where there is no figure, the reason in its place."""
    rows = []
    for table in card_tables(cards):
        by_provider = {c.provider: c for c in table.cards}
        own = [o for o in COSTS if o.kind == table.kind and (o.without is None or any(c.row(o.metric) for c in table.cards))]
        for metric in ("cost_per_run", "cost_per_finished_run", *(o.metric for o in own)):
            values = {p: (r.value if (c := by_provider.get(p)) and (r := c.row(metric)) else None) for p in providers}
            shown = scale("USD", values.values(), metric)
            rows.append(
                CostRow(
                    words(metric),
                    METRICS[metric].meaning,
                    table.kind,
                    table.title,
                    tuple(shown.text(values[p]) for p in providers),
                    tuple("" if values[p] is not None else _why_no_cost(by_provider.get(p), quotes.get(p), metric) for p in providers),
                )
            )
    return tuple(rows)


def _why_no_cost(card: Scorecard | None, quote: Quote | None, metric: str) -> str:
    if card is None:
        return "did not run this workload"
    if not card.usable:
        return "no usable trial"
    if quote is None or quote.basis is None:
        return (quote.reason if quote else None) or "no price is declared"
    if metric in ("cost_per_run", "cost_per_finished_run"):
        return "the time that the trial held the provider was not recorded"
    outcome = next(o for o in COSTS if o.metric == metric)
    return f"{not_measured(outcome)}, or was zero"


@dataclass(frozen=True)
class RankRow:
    place: str
    provider: str
    score: str
    chance: str
    values: tuple[str, ...]
    shares: tuple[float, ...]
    why_not: tuple[str, ...]


def rank_rows(decision: Decision) -> tuple[RankRow, ...]:
    """A decision's ranking as rows; `shares`: what each column's value function makes of the value, in percent."""
    scales = [scale(c.unit, [r.values[j] for r in decision.ranking], c.metric) for j, c in enumerate(decision.columns)]
    rows = []
    for i, r in enumerate(decision.ranking, start=1):
        rows.append(
            RankRow(
                place=str(i) if r.eligible else "–",
                provider=r.provider,
                score="–" if r.score is None else f"{r.score:.2f}",
                chance=chance(r.probability_first),
                values=tuple(s.text(v) for s, v in zip(scales, r.values, strict=True)),
                shares=tuple(round(100 * v, 1) for v in r.ratios or ()),
                why_not=r.why_not,
            )
        )
    return tuple(rows)


@dataclass(frozen=True)
class FactRow:
    name: str
    values: tuple[str, ...]
    differs: bool


def fact_rows(environments: Mapping[str, Sequence[Mapping[str, object]]], providers: Sequence[str]) -> tuple[FactRow, ...]:
    """Facts by provider. A fact that changed between a provider's own trials shows all its values; facts that differ come first."""
    names = sorted({name for facts in environments.values() for each in facts for name in each})
    rows = []
    for name in names:
        values = tuple(_fact_values(environments.get(p, ()), name) for p in providers)
        rows.append(FactRow(name, values, len(set(values)) > 1 or any(" | " in v for v in values)))
    return tuple(sorted(rows, key=lambda r: (not r.differs, r.name)))


def _fact_values(environments: Sequence[Mapping[str, object]], name: str) -> str:
    found = dict.fromkeys(_fact(e[name]) for e in environments if name in e)
    return " | ".join(found) or "–"


def _fact(value: object) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class LaunchRow:
    provider: str
    kind: str
    workload: str
    counts: tuple[int, ...]
    launches: str
    interval: str
    promised: str
    verdict: str


def launch_rows(cards: Sequence[Scorecard], providers: Mapping[str, Provider]) -> tuple[LaunchRow, ...]:
    """Reliability: how the trials ended, and launches against what the contract promises."""
    rows = []
    for card in sorted(cards, key=lambda c: (c.kind != "training", c.workload, c.provider)):
        share, launch = card.launch.share, card.launch
        verdict = {
            "met": "met",
            "missed": "missed",
            "unproven": f"unproven: needs {launch.launches_needed} flawless launches" if launch.launches_needed else "unproven",
            "none_declared": "none declared",
        }[launch.verdict]
        rows.append(
            LaunchRow(
                provider=card.provider,
                kind=card.kind,
                workload=f"{card.workload} v{card.version}",
                counts=tuple(card.counts.values()),
                launches=f"{share.successes} of {share.n}",
                interval=f"{percent(share.low)} … {percent(share.high)}" if share.low is not None else "–",
                promised=percent(launch.promised, 1) if launch.promised is not None else "–",
                verdict=verdict,
            )
        )
    return tuple(rows)
