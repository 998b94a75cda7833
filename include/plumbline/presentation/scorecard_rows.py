"""Scorecards as rows of text: metrics, criteria, launches, references, comparability. One set of rows for the CLI, the report and the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.analysis.campaign_data import CampaignData, CampaignQuality
from plumbline.analysis.document_sample import sample_of
from plumbline.analysis.scorecards.comparability import Incomparable, incomparable
from plumbline.analysis.scorecards.criteria import CriterionVerdict, judge_all
from plumbline.analysis.scorecards.provisioning import ScaleTime
from plumbline.analysis.scorecards.references import ReferenceShare, reference_shares
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.analysis.service_record import ServiceRecord
from plumbline.declarations import AnyWorkload, Criterion, Provider
from plumbline.declarations.promises.judging.row import PromiseRow, format_interval
from plumbline.declarations.promises.launch_success import launch_row
from plumbline.declarations.promises.provisioning_lead_time import lead_time_row
from plumbline.declarations.promises.speed_floors import speed_row
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.declarations.references import References
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, common_scale, format_change, format_count, format_name, format_percent
from plumbline.metrics.pooling import PooledMetric
from plumbline.metrics.proportions import Proportion
from plumbline.presentation.availability import MonthLine, availability_view
from plumbline.presentation.card_tables import CardTable, Cell, TableRow, card_tables
from plumbline.presentation.promises import format_share
from plumbline.results import ResultDocument
from plumbline.results.operations import LogKind
from plumbline.words.criteria import explanation_text


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
    service: tuple[TableRow, ...]
    shares: tuple[ShareLine, ...]
    apart: tuple[Incomparable, ...]

    @property
    def first_shares(self) -> tuple[ShareLine, ...]:
        """Each provider's leading exact share: of the model that ran, published before physical."""
        exact = [s for s in self.shares if s.exact]
        by_provider = ([s for s in exact if s.provider == name] for name in self.providers)
        return tuple(
            next((s for s in provider_shares if s.of_model), provider_shares[0]) for provider_shares in by_provider if provider_shares
        )


def campaign_rows(campaign: CampaignData, cards: Sequence[Scorecard]) -> tuple[ScorecardRows, ...]:
    """The rows of a campaign's cards, with providers and workloads as recorded in its trials."""
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    return scorecard_rows(
        cards,
        campaign.references,
        {s.provider.name: s.provider for s in specs},
        {s.workload.name: s.workload for s in specs},
        service=campaign.service,
    )


def scorecard_rows(
    cards: Sequence[Scorecard],
    references: References,
    providers: Mapping[str, Provider],
    workloads: Mapping[str, AnyWorkload],
    order: Sequence[str] = (),
    service: Mapping[str, ServiceRecord] | None = None,
) -> tuple[ScorecardRows, ...]:
    """One entry per table of cards, with its providers in the `order` of `card_tables`. `providers` and `workloads`, by name, as they were when
    the cards were measured. `service`: by provider, over the months of the cards."""
    incomparabilities = incomparable(cards)
    return tuple(
        ScorecardRows(
            kind=table.kind,
            workload=table.workload,
            version=table.version,
            title=table.title,
            anchor=table.anchor,
            providers=tuple(c.provider for c in table.cards),
            primary=_primary_row(table),
            friction=_friction(table.cards),
            capacity=_capacity(table.cards),
            service=service_rows([(service or {}).get(c.provider) for c in table.cards]),
            shares=tuple(line for c in table.cards for line in _shares(c, references, providers, workloads)),
            apart=tuple(i for i in incomparabilities if (i.kind, i.workload) == (table.kind, table.workload)),
        )
        for table in card_tables(cards, order=order, rows=False)
    )


def _primary_row(table: CardTable) -> TableRow | None:
    primary = next((c.primary_metric for c in table.cards if c.primary_metric is not None), None)
    if primary is None:
        return None
    definition = primary.known
    scale = common_scale(definition.unit, [c.primary.value for c in table.cards if c.primary is not None], primary.metric)
    return TableRow(primary.text.replace("_", " "), definition.description, tuple(_primary_cell(c, scale) for c in table.cards))


def _primary_cell(card: Scorecard, scale: Scale) -> Cell:
    row = card.primary
    if row is None or row.value is None:
        unshown = next((limit.judgement.text for limit in card.limits if limit.missing), "")
        return Cell("–", reason=card.unusable or unshown or "not measured in any usable trial")
    limited = [f"limit: {limit.word}" for limit in card.limits if limit.phase == row.phase]
    detail = _detail(scale, row.low, row.high, row.coverage, row.n)
    return Cell(scale.text(row.value), "; ".join([detail, *limited]), trials=row.trials)


def _detail(scale: Scale, low: float | None, high: float | None, coverage: float | None, n: int) -> str:
    between = scale.interval(low, high)
    return f"{between} ({format_percent(coverage)}), n {n}" if between else f"n {n}, no interval"


def _friction(cards: Sequence[Scorecard]) -> tuple[TableRow, ...]:
    leads = [c.friction.lead_time.time for c in cards]
    return (
        TableRow("launch success", "share of launches whose harness started", tuple(_launch_cell(c) for c in cards)),
        TableRow("lead time", METRICS["provisioning_lead_time"].description, tuple(_lead_time_cell(c, _scale(leads)) for c in cards)),
        *(
            [TableRow("promised speed", "median of the repeats against the contract", tuple(map(_speed_cell, cards)))]
            if any(c.speed is not None for c in cards)
            else []
        ),
        _measured_row("pod scheduling", [c.friction.pod_scheduling for c in cards]),
        _measured_row("image pull", [c.friction.image_pull for c in cards]),
        TableRow("manual steps", "declared manual work before a trial can run", tuple(_steps_cell(c) for c in cards)),
    )


def _scale(pooled_metrics: Sequence[PooledMetric]) -> Scale:
    return common_scale("s", [m.value for m in pooled_metrics], pooled_metrics[0].metric if pooled_metrics else "")


def _cell(measured: PooledMetric, scale: Scale) -> Cell:
    if measured.value is None:
        return Cell("–", reason=measured.reason)
    detail = _detail(scale, measured.low, measured.high, measured.coverage, measured.n)
    return Cell(scale.text(measured.value), detail, trials=measured.trials)


def _measured_row(name: str, pooled_metrics: Sequence[PooledMetric]) -> TableRow:
    return TableRow(name, METRICS[pooled_metrics[0].metric].description, tuple(_cell(m, _scale(pooled_metrics)) for m in pooled_metrics))


def _launch_cell(card: Scorecard) -> Cell:
    launch = card.launch
    if launch.share.ratio is None:
        return Cell("–", reason=launch_row(launch).measured)
    unproven = f"; {launch.unproven} more not proven to be the provider's" if launch.unproven else ""
    return _with_promise(Cell(format_percent(launch.share.ratio), format_share(launch.share) + unproven), launch_row(launch))


def _lead_time_cell(card: Scorecard, scale: Scale) -> Cell:
    cell, lead = _cell(card.friction.lead_time.time, scale), card.friction.lead_time
    if cell.reason:
        return cell
    in_time = f"{cell.detail}, {lead.kept.share.successes} within the promise" if lead.promised_s is not None else cell.detail
    return _with_promise(replace(cell, detail=in_time), lead_time_row(lead))


def _speed_cell(card: Scorecard) -> Cell:
    if card.speed is None:
        return Cell("–", reason="none promised")
    measured = card.speed.measured
    cell = _cell(measured, common_scale(card.speed.criterion.known.unit, [measured.value], measured.metric))
    return cell if cell.reason else _with_promise(cell, speed_row(card.speed))


def _with_promise(cell: Cell, row: PromiseRow) -> Cell:
    return replace(cell, detail=f"{cell.detail}; {row.judged}", mark=row.mark) if row.promised else cell


def _steps_cell(card: Scorecard) -> Cell:
    steps = card.friction.manual_steps
    if steps is None:
        return Cell("–", reason="not declared (manual_steps of the provider)")
    return Cell("none" if not steps else str(len(steps)), "; ".join(steps))


def _capacity(cards: Sequence[Scorecard]) -> tuple[TableRow, ...]:
    rows = [
        *_scale_rows("time to {}", "from the request to the last pod running", [c.capacity.scale for c in cards]),
        *_scale_rows(
            "{} of a gang", "from the creation of the gang's first pod until so many were ready", [c.capacity.gang for c in cards]
        ),
    ]
    slots = sorted({s.slot for c in cards for s in c.capacity.shortage})
    for slot in slots if len(slots) > 1 else []:
        shortages = [next((s for s in c.capacity.shortage if s.slot == slot), None) for c in cards]
        cells = tuple(Cell("–", reason="no launches in this slot") if r is None else _refusal_cell(r.refused, r.trials) for r in shortages)
        rows.append(TableRow(f"refused at {slot} UTC", "launches in this slot that failed for lack of capacity", cells))
    every = tuple(_refusal_cell(c.capacity.refused, tuple(t for s in c.capacity.shortage for t in s.trials)) for c in cards)
    rows.append(TableRow("refused", "launches that failed for lack of capacity, all slots", every))
    limits = tuple(Cell("–" if c.capacity.reason else "", reason=c.capacity.reason) for c in cards)
    return (
        (*rows, TableRow("unknown", "capacity that these launches do not show", limits)) if any(c.reason for c in limits) else tuple(rows)
    )


def _scale_rows(name: str, description: str, by_card: Sequence[Sequence[ScaleTime]]) -> Iterator[TableRow]:
    """A row for each number of nodes; `{}` in the name is that number."""
    for nodes in sorted({s.nodes for steps in by_card for s in steps}):
        times = [next((s.time for s in steps if s.nodes == nodes), None) for steps in by_card]
        scale = _scale([m for m in times if m is not None])
        cells = tuple(Cell("–", reason="no such launch") if m is None else _cell(m, scale) for m in times)
        yield TableRow(name.format(format_count(nodes, "node")), description, cells)


def service_rows(records: Sequence[ServiceRecord | None]) -> tuple[TableRow, ...]:
    """What checks between campaigns and the operations log show of each provider; no row that says nothing of any."""
    months = [{(w.kind, m.month): m for w in map(availability_view, r.watches) for m in w.months} if r is not None else {} for r in records]
    rows = []
    for kind, month in sorted({key for known in months for key in known}, key=lambda key: (key[0] != "uptime", key[1])):
        cells = tuple(_watch_cell(known.get((kind, month)), kind) for known in months)
        rows.append(
            TableRow(
                f"{kind} in {month}",
                "by the checks between campaigns: at least … at most; what was not seen counts as down in the lower bound",
                cells,
            )
        )
    for logged, name in _LOGGED.items() if any(r is not None and r.logged for r in records) else ():
        rows.append(
            TableRow(name, "of the operations log, in the year up to the end of these months", tuple(_log_cell(r, logged) for r in records))
        )
    return tuple(rows)


def _watch_cell(month: MonthLine | None, kind: WatchKind) -> Cell:
    if month is None or not month.checks:
        unshown = "" if month is None or not month.apart else f": {month.apart}"
        return Cell("–", reason=f"not watched (watch.{kind} of the provider)" if month is None else f"{month.share}{unshown}")
    return Cell(month.share, f"{month.evidence}, {format_count(month.lost, 'outage')}, {month.down} down, {month.unknown} unknown")


_LOGGED: dict[LogKind, str] = {"incident": "incidents", "ticket": "support tickets", "quota": "quota requests"}


def _log_cell(record: ServiceRecord | None, kind: LogKind) -> Cell:
    if record is None or not record.logged.get(kind):
        return Cell("–", reason="none is logged")
    times = {"solved": record.recovery} if kind == "incident" else {"first answer": record.answers[kind], "solved": record.solutions[kind]}
    cells = ((name, _cell(time, common_scale("s", [time.value]))) for name, time in times.items())
    return Cell(str(record.logged[kind]), "; ".join(f"{name}: {cell.reason or f'{cell.text} ({cell.detail})'}" for name, cell in cells))


def _refusal_cell(share: Proportion, trials: tuple[str, ...]) -> Cell:
    if share.ratio is None:
        return Cell("–", reason="no launches")
    return Cell(format_percent(share.ratio), format_share(share), mark="bad" if share.successes else "", trials=trials)


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


def criterion_rows(cards: Sequence[Scorecard]) -> tuple[CriterionRow, ...]:
    """Criteria as declared, one verdict per card."""
    texts = dict.fromkeys(j.declared for c in cards for j in c.acceptance)
    rows = []
    for text in texts:
        verdicts = [next((j for j in c.acceptance if j.declared == text), None) for c in cards]
        rows.append(CriterionRow(text, tuple(None if j is None else _criterion_cell(j) for j in verdicts)))
    return tuple(rows)


def trial_verdicts(
    document: ResultDocument, quality: CampaignQuality | None = None, resolved: Mapping[str, Criterion] | None = None
) -> tuple[tuple[str, CriterionCell], ...]:
    """A trial's criteria judged on this attempt alone; a campaign judges them over all repeats."""
    verdicts = judge_all(document.trial.workload.acceptance, [sample_of(document, quality, resolved)])
    return tuple((verdict.declared, _criterion_cell(verdict)) for verdict in verdicts)


def _criterion_cell(verdict: CriterionVerdict) -> CriterionCell:
    scale = common_scale(verdict.unit, [verdict.value], verdict.metric)
    margin = ""
    if verdict.margin is not None:
        margin = f"{format_change(verdict.margin, 0)} from the limit" if verdict.margin < 0 else f"{format_percent(verdict.margin)} margin"
    if verdict.text != verdict.declared:
        margin = f"{margin}{': ' if margin else ''}{verdict.text}"
    return CriterionCell(verdict.outcome, scale.text(verdict.value), margin, explanation_text(verdict.basis))


@dataclass(frozen=True)
class FactRow:
    name: str
    values: tuple[str, ...]
    differs: bool


def fact_rows(environments: Mapping[str, Sequence[Mapping[str, object]]], providers: Sequence[str]) -> tuple[FactRow, ...]:
    """Facts by provider, those that differ first. A fact that changed between a provider's trials has all its values."""
    names = sorted({name for facts in environments.values() for environment in facts for name in environment})
    rows = []
    for name in names:
        values = tuple(_fact_values(environments.get(p, ()), name) for p in providers)
        rows.append(FactRow(name, values, len(set(values)) > 1 or any(" | " in v for v in values)))
    return tuple(sorted(rows, key=lambda r: (not r.differs, r.name)))


def _fact_values(environments: Sequence[Mapping[str, object]], name: str) -> str:
    texts = dict.fromkeys(_fact(e[name]) for e in environments if name in e)
    return " | ".join(texts) or "–"


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
    share, promise = card.launch.share, launch_row(card.launch)
    return LaunchRow(
        provider=card.provider,
        kind=card.kind,
        workload=f"{card.workload} v{card.version}",
        counts=tuple(card.counts.values()),
        launches=f"{share.successes} of {share.n}" + (f" (+ {card.launch.unproven} unproven)" if card.launch.unproven else ""),
        interval=format_interval(share) or "–",
        promised=promise.promised or "–",
        verdict=promise.verdict_text,
    )


_PER_DEVICE = "_per_device"


def share_sentence(share: ReferenceShare) -> str:
    """`67 % of what NVIDIA publishes for this shape (10,682 tokens/s per GPU, …, 2025)`; for another shape its differences, without a share."""
    figure = _published_figure(share)
    dated = f"{share.source}, {share.on.year}" if share.on is not None else share.source
    prefix = "SIMULATED: " if share.simulated else ""
    if share.share is None:
        measured = common_scale(METRICS[share.metric].unit, [share.measured], share.metric).text(share.measured)
        return f"{prefix}no share: {share.by} publishes {figure} ({dated}) for {'; '.join(share.differs)}; measured here: {measured}"
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
    if share.low is None or share.high is None:
        return ""
    return f" ({format_percent(share.low).removesuffix(' %')} … {format_percent(share.high)})"
