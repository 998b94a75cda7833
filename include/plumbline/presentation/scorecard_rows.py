"""Scorecards as rows of text: metrics, criteria, launches, references, comparability. One set of rows for the CLI, the report and the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from plumbline.analysis.campaign_data import CampaignData, Quality
from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.scorecards.acceptance import CriterionVerdict, judge
from plumbline.analysis.scorecards.comparability import Incomparable, incomparable
from plumbline.analysis.scorecards.placings import place
from plumbline.analysis.scorecards.pooling import Pooled, PooledMetric
from plumbline.analysis.scorecards.references import ReferenceShare, reference_shares
from plumbline.analysis.scorecards.scorecard import Row, Scorecard, leaders
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.references import References
from plumbline.metrics import METRICS, catalogue_order
from plumbline.metrics.formatting import Scale, common_scale, format_name, format_percent
from plumbline.metrics.proportions import Proportion
from plumbline.results import ResultDocument

NumberKey = tuple[str, str, str]
"""(metric, statistic, phase)"""


@dataclass(frozen=True)
class Cell:
    """One provider's value. `detail`: its interval, n and verdict; `reason`: why there is none. `mark`: good, bad, best, tied or empty.
    `trials`: ids behind it. `left`, `width`, `dot`: its interval on the row's own scale, in percent."""

    text: str
    detail: str = ""
    reason: str = ""
    mark: Literal["good", "bad", "best", "tied", ""] = ""
    trials: tuple[str, ...] = ()
    unit: str = ""
    title: str = ""
    left: float | None = None
    width: float | None = None
    dot: float | None = None


@dataclass(frozen=True)
class TableRow:
    """One metric and each provider's value, in the order of the columns. `minor`: not the metric's leading statistic."""

    name: str
    meaning: str
    cells: tuple[Cell, ...]
    detail: str = ""
    arrow: str = ""
    minor: bool = False


@dataclass(frozen=True)
class ShareLine:
    """One share of a reference as a sentence. `exact`: the reference has the same shape. `of_model`: it is about the model, which leads over
    bare hardware."""

    provider: str
    sentence: str
    kind: Literal["published", "physical"]
    exact: bool
    share: float | None
    trials: tuple[str, ...]
    of_model: bool = False


@dataclass(frozen=True)
class ScorecardRows:
    """A table of scorecards beside its metrics. `primary`: None without a primary metric."""

    kind: str
    workload: str
    version: int
    title: str
    anchor: str
    providers: tuple[str, ...]
    primary: TableRow | None
    friction: tuple[TableRow, ...]
    capacity: tuple[TableRow, ...]
    shares: tuple[ShareLine, ...]
    apart: tuple[Incomparable, ...]

    @property
    def first_shares(self) -> tuple[ShareLine, ...]:
        """Each provider's leading exact share: of the model that ran, published before physical."""
        exact = [s for s in self.shares if s.exact]
        by_provider = ([s for s in exact if s.provider == name] for name in self.providers)
        return tuple(next((s for s in own if s.of_model), own[0]) for own in by_provider if own)


def campaign_rows(campaign: CampaignData, cards: Sequence[Scorecard]) -> tuple[ScorecardRows, ...]:
    """The rows of a campaign's cards, with providers and workloads as recorded in its trials."""
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    return scorecard_rows(
        cards, campaign.references, {s.provider.name: s.provider for s in specs}, {s.workload.name: s.workload for s in specs}
    )


def scorecard_rows(
    cards: Sequence[Scorecard],
    references: References,
    providers: Mapping[str, Provider],
    workloads: Mapping[str, AnyWorkload],
    order: Sequence[str] = (),
) -> tuple[ScorecardRows, ...]:
    """One entry per table of cards, with its providers in the `order` of `card_tables`. `providers` and `workloads`, by name, as they were when
    the cards were measured."""
    apart = incomparable(cards)
    return tuple(
        ScorecardRows(
            kind=table.kind,
            workload=table.workload,
            version=table.version,
            title=table.title,
            anchor=table.anchor,
            providers=tuple(c.provider for c in table.cards),
            primary=_primary(table),
            friction=_friction(table.cards),
            capacity=_capacity(table.cards),
            shares=tuple(line for c in table.cards for line in _shares(c, references, providers, workloads)),
            apart=tuple(i for i in apart if (i.kind, i.workload) == (table.kind, table.workload)),
        )
        for table in card_tables(cards, order=order, rows=False)
    )


def _primary(table: CardTable) -> TableRow | None:
    primary = next((c.primary_metric for c in table.cards if c.primary_metric is not None), None)
    if primary is None:
        return None
    known = METRICS[primary.metric]
    shown = common_scale(known.unit, [c.primary.value for c in table.cards if c.primary is not None], primary.metric)
    return TableRow(primary.text.replace("_", " "), known.description, tuple(_first(c.primary, shown) for c in table.cards))


def _first(row: Row | None, shown: Scale) -> Cell:
    if row is None or row.value is None:
        return Cell("–", reason="not measured in any usable trial")
    return Cell(shown.text(row.value), _detail(shown, row.low, row.high, row.coverage, row.n), trials=row.trials)


def _detail(shown: Scale, low: float | None, high: float | None, coverage: float | None, n: int) -> str:
    if low is None or high is None or coverage is None:
        return f"n {n}, no interval"
    return f"{shown.number(low)} … {shown.number(high)} ({format_percent(coverage)}), n {n}"


def _friction(cards: Sequence[Scorecard]) -> tuple[TableRow, ...]:
    leads = [c.friction.lead_time.time for c in cards]
    return (
        TableRow("launch success", "share of launches whose harness started", tuple(_launch(c) for c in cards)),
        TableRow("lead time", METRICS["provisioning_lead_time"].description, tuple(_lead(c, _scale(leads)) for c in cards)),
        _measured("pod scheduling", [c.friction.pod_scheduling for c in cards]),
        _measured("image pull", [c.friction.image_pull for c in cards]),
        TableRow("manual steps", "declared manual work before a trial can run", tuple(_steps(c) for c in cards)),
    )


def _scale(found: Sequence[PooledMetric]) -> Scale:
    return common_scale("s", [m.value for m in found], found[0].metric if found else "")


def _cell(measured: PooledMetric, shown: Scale) -> Cell:
    if measured.value is None:
        return Cell("–", reason=measured.reason)
    detail = _detail(shown, measured.low, measured.high, measured.coverage, measured.n)
    return Cell(shown.text(measured.value), detail, trials=measured.trials)


def _measured(name: str, found: Sequence[PooledMetric]) -> TableRow:
    return TableRow(name, METRICS[found[0].metric].description, tuple(_cell(m, _scale(found)) for m in found))


_VERDICTS: dict[str, Literal["good", "bad", ""]] = {"met": "good", "missed": "bad"}


def _launch(card: Scorecard) -> Cell:
    launch = card.launch
    if launch.share.ratio is None:
        return Cell("–", reason="no launches")
    detail = _share(launch.share)
    if launch.promised is not None:
        detail += f"; promised {format_percent(launch.promised, 1)}: {launch.verdict}"
    if launch.verdict == "unproven" and launch.launches_needed:
        detail += f", needs {launch.launches_needed} flawless launches"
    return Cell(format_percent(launch.share.ratio), detail, mark=_VERDICTS.get(launch.verdict, ""))


def _lead(card: Scorecard, shown: Scale) -> Cell:
    lead = card.friction.lead_time
    cell = _cell(lead.time, shown)
    if lead.promised_s is None or lead.kept.ratio is None:
        return cell
    promised = common_scale("s", [lead.promised_s]).text(lead.promised_s)
    detail = f"{cell.detail}; promised {promised}: {lead.verdict} ({lead.kept.successes} of {lead.kept.n} within it)"
    return Cell(cell.text, detail, cell.reason, _VERDICTS.get(lead.verdict, ""), cell.trials)


def _steps(card: Scorecard) -> Cell:
    steps = card.friction.manual_steps
    if steps is None:
        return Cell("–", reason="not declared (manual_steps of the provider)")
    return Cell("none" if not steps else str(len(steps)), "; ".join(steps))


def _capacity(cards: Sequence[Scorecard]) -> tuple[TableRow, ...]:
    rows = []
    for nodes in sorted({s.nodes for c in cards for s in c.capacity.scale}):
        found = [next((s.time for s in c.capacity.scale if s.nodes == nodes), None) for c in cards]
        shown = _scale([m for m in found if m is not None])
        cells = tuple(Cell("–", reason="no such launch") if m is None else _cell(m, shown) for m in found)
        rows.append(TableRow(f"time to {nodes} {'node' if nodes == 1 else 'nodes'}", "from the request to the last pod running", cells))
    slots = sorted({s.slot for c in cards for s in c.capacity.shortage})
    for slot in slots if len(slots) > 1 else []:
        refused = [next((s for s in c.capacity.shortage if s.slot == slot), None) for c in cards]
        cells = tuple(Cell("–", reason="no launches in this slot") if r is None else _refused(r.refused, r.trials) for r in refused)
        rows.append(TableRow(f"refused at {slot} UTC", "launches in this slot that failed for lack of capacity", cells))
    every = tuple(_refused(c.capacity.refused, tuple(t for s in c.capacity.shortage for t in s.trials)) for c in cards)
    rows.append(TableRow("refused", "launches that failed for lack of capacity, all slots", every))
    limits = tuple(Cell("–" if c.capacity.reason else "", reason=c.capacity.reason) for c in cards)
    return (
        (*rows, TableRow("unknown", "capacity that these launches do not show", limits)) if any(c.reason for c in limits) else tuple(rows)
    )


def _refused(share: Proportion, trials: tuple[str, ...]) -> Cell:
    if share.ratio is None:
        return Cell("–", reason="no launches")
    return Cell(format_percent(share.ratio), _share(share), mark="bad" if share.successes else "", trials=trials)


def _share(share: Proportion) -> str:
    return f"{share.successes} of {share.n} ({format_percent(share.low)} … {format_percent(share.high)})"


def _shares(
    card: Scorecard, references: References, providers: Mapping[str, Provider], workloads: Mapping[str, AnyWorkload]
) -> tuple[ShareLine, ...]:
    provider, workload = providers.get(card.provider), workloads.get(card.workload)
    if provider is None or workload is None:
        return ()
    return tuple(
        ShareLine(card.provider, share_sentence(s), s.kind, s.share is not None, s.share, s.trials, " of " in s.what)
        for s in reference_shares(card, references, provider, workload)
    )


@dataclass(frozen=True)
class CriterionCell:
    """`outcome`: pass, mixed, fail or insufficient; `value` and `margin` with their units, the latter empty where there is none."""

    outcome: str
    value: str
    margin: str
    explanation: str


@dataclass(frozen=True)
class CriterionRow:
    """A criterion as it was declared, and its verdict for each card or trial: None where that one does not declare it."""

    text: str
    verdicts: tuple[CriterionCell | None, ...]


def acceptance_rows(cards: Sequence[Scorecard]) -> tuple[CriterionRow, ...]:
    """Criteria as declared, one verdict per card."""
    texts = dict.fromkeys(j.text for c in cards for j in c.acceptance)
    rows = []
    for text in texts:
        judged = [next((j for j in c.acceptance if j.text == text), None) for c in cards]
        rows.append(CriterionRow(text, tuple(None if j is None else _verdict(j) for j in judged)))
    return tuple(rows)


def trial_verdicts(document: ResultDocument, quality: Quality | None = None) -> tuple[tuple[str, CriterionCell], ...]:
    """A trial's criteria judged on this attempt alone; a campaign judges them over all repeats."""
    numbers = sample_of(document, quality)
    return tuple((criterion.text, _verdict(judge(criterion, [numbers]))) for criterion in document.trial.workload.acceptance)


def _verdict(judged: CriterionVerdict) -> CriterionCell:
    shown = common_scale(judged.unit, [judged.value], judged.metric)
    margin = ""
    if judged.margin is not None:
        margin = f"{100 * judged.margin:+.0f} % from the limit" if judged.margin < 0 else f"{100 * judged.margin:.0f} % margin"
    return CriterionCell(judged.outcome, shown.text(judged.value), margin, judged.explanation)


GROUP_TITLES = {
    "latency": "Latency",
    "throughput": "Throughput",
    "cost": "Cost",
    "reliability": "Reliability",
    "start_up": "Start-up",
    "recovery": "Recovery",
    "hardware": "Hardware and utilisation",
    "quality": "Outcome",
    "client": "Load client",
}
TAILS = ("p90", "p95", "p99")


@dataclass(frozen=True)
class CardTable:
    """The scorecards of one workload side by side."""

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


def card_tables(
    cards: Sequence[Scorecard],
    fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None = None,
    order: Sequence[str] = (),
    *,
    rows: bool = True,
) -> tuple[CardTable, ...]:
    """One table per kind, workload and version; training before inference, never merged. Without `rows` its groups are empty.

    `fleet`: each number of every provider where the cards are a part of them: leaders and units are of the whole fleet. `order`: providers as
    columns; by name without it.
    """

    def identity(card: Scorecard) -> tuple[bool, str, int]:
        return (card.kind != "training", card.workload, card.version)

    tables = []
    for _, group in groupby(sorted(cards, key=identity), key=identity):
        side_by_side = tuple(sorted(group, key=lambda c: (order.index(c.provider) if c.provider in order else len(order), c.provider)))
        first = side_by_side[0]
        tables.append(CardTable(first.kind, first.workload, first.version, side_by_side, _groups(side_by_side, fleet) if rows else ()))
    return tuple(tables)


def _groups(
    cards: Sequence[Scorecard], fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None = None
) -> tuple[tuple[str, tuple[TableRow, ...]], ...]:
    keys: dict[tuple[str, str, str, str], None] = {}
    for card in cards:
        for row in card.rows:
            if _shown(row) and (row.leading or row.value is not None):
                keys[row.group, row.metric, row.phase, row.statistic] = None
    groups = list(GROUP_TITLES)
    ordered = sorted(keys, key=lambda k: (groups.index(k[0]), catalogue_order(k[1]), not _leads(cards, k), k[2], k[3]))
    found = []
    for group, members in groupby(ordered, key=lambda k: k[0]):
        found.append((GROUP_TITLES[group], tuple(_row(cards, metric, statistic, phase, fleet) for _, metric, phase, statistic in members)))
    return tuple(found)


def _shown(row: Row) -> bool:
    return row.leading or (row.statistic in TAILS and row.phase == "steady" and row.group == "latency")


def _leads(cards: Sequence[Scorecard], key: tuple[str, str, str, str]) -> bool:
    return any(r.leading for c in cards for r in c.rows if (r.group, r.metric, r.phase, r.statistic) == key)


def row_keys(cards: Sequence[Scorecard]) -> frozenset[NumberKey]:
    """The numbers that the tables of these cards show."""
    return frozenset(
        (r.metric, r.statistic, r.phase) for card in cards for r in card.rows if _shown(r) and (r.leading or r.value is not None)
    )


def _row(
    cards: Sequence[Scorecard], metric: str, statistic: str, phase: str, fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None
) -> TableRow:
    rows = {c.provider: c.row(metric, statistic, phase) for c in cards}
    present = [r for r in rows.values() if r is not None and r.value is not None]
    known = METRICS[metric]
    numbers = (fleet or {}).get((metric, statistic, phase), {})
    shown = common_scale(known.unit, [n.value for n in numbers.values()] or [r.value for r in present], metric)
    ahead = (
        () if known.group == "client" else _ahead(rows, known.direction, numbers, fleet is not None)
    )  # the load client is not the provider
    top = max(r.high if r.high is not None else r.value or 0.0 for r in present) if len(present) > 1 else 0.0
    leading = any(r.leading for r in rows.values() if r is not None)
    arrow = {"lower_is_better": "↓", "higher_is_better": "↑"}.get(known.direction, "")
    detail = " · ".join(
        part for part in ("" if statistic == "value" else statistic, "" if phase == "steady" else format_name(phase)) if part
    )
    cells = tuple(_metric_cell(rows[c.provider], shown, top, _mark(c.provider, ahead)) for c in cards)
    return TableRow(format_name(metric), known.description, cells, detail, arrow, not leading)


def _ahead(rows: dict[str, Row | None], direction: str, numbers: Mapping[str, Pooled], whole: bool) -> tuple[str, ...]:
    """The leaders of the whole fleet; none where only a part of it is known, as costs of held time are."""
    if not whole:
        return leaders(rows)
    if len(numbers) < 2 or direction == "informative":
        return ()
    return tuple(p.provider for p in place(numbers, direction == "lower_is_better") if p.leads)


def _mark(provider: str, ahead: Sequence[str]) -> Literal["best", "tied", ""]:
    return "" if provider not in ahead else "best" if len(ahead) == 1 else "tied"


def _metric_cell(row: Row | None, shown: Scale, top: float, mark: Literal["best", "tied", ""]) -> Cell:
    if row is None or row.value is None:
        return Cell("–", title="not measured in any usable trial")
    text, dot = shown.number(row.value), _at(row.value, top)
    if row.low is None or row.high is None or row.coverage is None:
        return Cell(text, f"n {row.n}", mark=mark, unit=shown.suffix, title="one repeat: no interval", dot=dot)
    kind = f"{format_percent(row.coverage)} interval of the median" if row.coverage >= 0.9 else f"range of {row.n} repeats"
    return Cell(
        text,
        f"{shown.number(row.low)} … {shown.number(row.high)}",
        mark=mark,
        unit=shown.suffix,
        title=f"median of {row.n} repeats ({row.observations:,} observations); {kind} (confidence {format_percent(row.coverage)})",
        left=_at(row.low, top),
        width=max(0.0, (_at(row.high, top) or 0.0) - (_at(row.low, top) or 0.0)),
        dot=dot,
    )


def _at(value: float, top: float) -> float | None:
    return round(100 * min(max(value / top, 0.0), 1.0), 2) if top > 0 else None


@dataclass(frozen=True)
class FactRow:
    name: str
    values: tuple[str, ...]
    differs: bool


def fact_rows(environments: Mapping[str, Sequence[Mapping[str, object]]], providers: Sequence[str]) -> tuple[FactRow, ...]:
    """Facts by provider, those that differ first. A fact that changed between a provider's trials has all its values."""
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


def launch_rows(cards: Sequence[Scorecard]) -> tuple[LaunchRow, ...]:
    """Trial outcomes, and launches compared with the contract."""
    ordered = sorted(cards, key=lambda c: (c.kind != "training", c.workload, c.provider))
    return tuple(_launch_row(card) for card in ordered)


def _launch_row(card: Scorecard) -> LaunchRow:
    share, launch = card.launch.share, card.launch
    needed = f": needs {launch.launches_needed} flawless launches" if launch.verdict == "unproven" and launch.launches_needed else ""
    return LaunchRow(
        provider=card.provider,
        kind=card.kind,
        workload=f"{card.workload} v{card.version}",
        counts=tuple(card.counts.values()),
        launches=f"{share.successes} of {share.n}",
        interval=f"{format_percent(share.low)} … {format_percent(share.high)}" if share.low is not None else "–",
        promised=format_percent(launch.promised, 1) if launch.promised is not None else "–",
        verdict=f"{format_name(launch.verdict)}{needed}",
    )


_PER_DEVICE = "_per_device"


def share_sentence(share: ReferenceShare) -> str:
    """`67 % of what NVIDIA publishes for this shape (10,682 tokens/s per GPU, …, 2025)`; for another shape its differences, without a share."""
    figure = _published_figure(share)
    dated = f"{share.source}, {share.on.year}" if share.on is not None else share.source
    prefix = "SIMULATED: " if share.simulated else ""
    if share.share is None:
        mine = common_scale(METRICS[share.metric].unit, [share.measured], share.metric).text(share.measured)
        return f"{prefix}no share: {share.by} publishes {figure} ({dated}) for {'; '.join(share.differs)}; measured here: {mine}"
    part = f"{prefix}{format_percent(share.share)}{_share_interval(share)}"
    if share.kind == "published":
        if share.of_a_shape:
            return f"{part} of what {share.by} publishes for this shape ({figure}, {dated})"
        return f"{part} of what {share.by} publishes for this accelerator, {share.what} ({figure}, {dated})"
    return f"{part} of the physical limit, {share.what} ({figure}, {dated})"


def _published_figure(share: ReferenceShare) -> str:
    unit = METRICS[share.metric].unit
    text = common_scale(unit, [share.published], share.metric, significant=4).text(share.published)
    return f"{text} {format_name(share.metric)}" if unit == "ratio" else f"{text} per GPU" if share.metric.endswith(_PER_DEVICE) else text


def _share_interval(share: ReferenceShare) -> str:
    return "" if share.low is None or share.high is None else f" ({100 * share.low:.0f} … {format_percent(share.high)})"
