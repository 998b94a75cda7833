"""What a scorecard says beside its metrics, as plain rows: the number asked first, friction, capacity, references, what cannot be compared.

One `ScorecardRows` per kind, workload and version, in the order of `card_tables`; its columns are the same providers. Every surface (the
command line, the report, the pages) shows these rows and formats nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.declarations import METRICS, AnyWorkload, Provider
from plumbline.declarations.references import References
from plumbline.reports.content import CampaignData
from plumbline.reports.figures import Scale, percent, scale
from plumbline.reports.reference_words import share_sentence
from plumbline.reports.tables import CardTable, card_tables
from plumbline.scorecards import Incomparable, Measured, Row, Scorecard, Share, incomparable, shares


@dataclass(frozen=True)
class PlainCell:
    """One provider's answer: `text` with its unit, `detail` its interval, n and verdict. Where there is none, `text` is an en dash and
    `reason` says why. `mark`: good, bad or "". `trials`: the ids behind it."""

    text: str
    detail: str = ""
    reason: str = ""
    mark: Literal["good", "bad", ""] = ""
    trials: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlainRow:
    """One question and each provider's answer, in the order of the columns."""

    name: str
    meaning: str
    cells: tuple[PlainCell, ...]


@dataclass(frozen=True)
class ShareLine:
    """One share of a reference as a sentence; `exact` False: the reference is of another shape, and the sentence says in what.

    `of_model`: it is about the model that ran, which is asked before what the bare hardware does.
    """

    provider: str
    sentence: str
    kind: Literal["published", "physical"]
    exact: bool
    share: float | None
    trials: tuple[str, ...]
    of_model: bool = False


@dataclass(frozen=True)
class ScorecardRows:
    """What one table of scorecards says beside its metrics. `primary` None: nobody said which number is asked first."""

    kind: str
    workload: str
    version: int
    title: str
    anchor: str
    providers: tuple[str, ...]
    primary: PlainRow | None
    friction: tuple[PlainRow, ...]
    capacity: tuple[PlainRow, ...]
    shares: tuple[ShareLine, ...]
    apart: tuple[Incomparable, ...]

    @property
    def first_shares(self) -> tuple[ShareLine, ...]:
        """Of each provider that has any the share that is asked first: of the model that ran, published before physical."""
        exact = [s for s in self.shares if s.exact]
        by_provider = ([s for s in exact if s.provider == name] for name in self.providers)
        return tuple(next((s for s in own if s.of_model), own[0]) for own in by_provider if own)


def campaign_rows(campaign: CampaignData, cards: Sequence[Scorecard]) -> tuple[ScorecardRows, ...]:
    """The rows of a campaign's cards, with the providers and workloads as its trials carry them."""
    specs = [d.trial for d in campaign.documents] or list(campaign.planned)
    return scorecard_rows(
        cards, campaign.references, {s.provider.name: s.provider for s in specs}, {s.workload.name: s.workload for s in specs}
    )


def scorecard_rows(
    cards: Sequence[Scorecard], references: References, providers: Mapping[str, Provider], workloads: Mapping[str, AnyWorkload]
) -> tuple[ScorecardRows, ...]:
    """One entry per table of cards. `providers` and `workloads`, by name, as they were when the cards were measured."""
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
        for table in card_tables(cards)
    )


def _primary(table: CardTable) -> PlainRow | None:
    asked = next((c.asked_first for c in table.cards if c.asked_first is not None), None)
    if asked is None:
        return None
    known = METRICS[asked.metric]
    shown = scale(known.unit, [c.primary.value for c in table.cards if c.primary is not None], asked.metric)
    return PlainRow(asked.text.replace("_", " "), known.meaning, tuple(_first(c.primary, shown) for c in table.cards))


def _first(row: Row | None, shown: Scale) -> PlainCell:
    if row is None or row.value is None:
        return PlainCell("–", reason="no usable trial measured it")
    return PlainCell(shown.text(row.value), _detail(shown, row.low, row.high, row.coverage, row.n), trials=row.trials)


def _detail(shown: Scale, low: float | None, high: float | None, coverage: float | None, n: int) -> str:
    if low is None or high is None or coverage is None:
        return f"n {n}, no interval"
    return f"{shown.number(low)} … {shown.number(high)} ({percent(coverage)}), n {n}"


def _friction(cards: Sequence[Scorecard]) -> tuple[PlainRow, ...]:
    leads = [c.friction.lead_time.time for c in cards]
    return (
        PlainRow("launch success", "launches whose harness started over launches", tuple(_launch(c) for c in cards)),
        PlainRow("lead time", METRICS["provisioning_lead_time"].meaning, tuple(_lead(c, _scale(leads)) for c in cards)),
        _measured("pod scheduling", [c.friction.pod_scheduling for c in cards]),
        _measured("image pull", [c.friction.image_pull for c in cards]),
        PlainRow("manual steps", "what a person must do before a trial can run there, as declared", tuple(_steps(c) for c in cards)),
    )


def _scale(found: Sequence[Measured]) -> Scale:
    return scale("s", [m.value for m in found], found[0].metric if found else "")


def _cell(measured: Measured, shown: Scale) -> PlainCell:
    if measured.value is None:
        return PlainCell("–", reason=measured.reason)
    detail = _detail(shown, measured.low, measured.high, measured.coverage, measured.n)
    return PlainCell(shown.text(measured.value), detail, trials=measured.trials)


def _measured(name: str, found: Sequence[Measured]) -> PlainRow:
    return PlainRow(name, METRICS[found[0].metric].meaning, tuple(_cell(m, _scale(found)) for m in found))


_VERDICTS: dict[str, Literal["good", "bad", ""]] = {"met": "good", "missed": "bad"}


def _launch(card: Scorecard) -> PlainCell:
    launch = card.launch
    if launch.share.ratio is None:
        return PlainCell("–", reason="nothing was launched")
    detail = _share(launch.share)
    if launch.promised is not None:
        detail += f"; promised {percent(launch.promised, 1)}: {launch.verdict}"
    if launch.verdict == "unproven" and launch.launches_needed:
        detail += f", needs {launch.launches_needed} flawless launches"
    return PlainCell(percent(launch.share.ratio), detail, mark=_VERDICTS.get(launch.verdict, ""))


def _lead(card: Scorecard, shown: Scale) -> PlainCell:
    lead = card.friction.lead_time
    cell = _cell(lead.time, shown)
    if lead.promised_s is None or lead.kept.ratio is None:
        return cell
    promised = scale("s", [lead.promised_s]).text(lead.promised_s)
    detail = f"{cell.detail}; promised {promised}: {lead.verdict} ({lead.kept.successes} of {lead.kept.n} within it)"
    return PlainCell(cell.text, detail, cell.reason, _VERDICTS.get(lead.verdict, ""), cell.trials)


def _steps(card: Scorecard) -> PlainCell:
    steps = card.friction.manual_steps
    if steps is None:
        return PlainCell("–", reason="not declared (manual_steps of the provider)")
    return PlainCell("none" if not steps else str(len(steps)), "; ".join(steps))


def _capacity(cards: Sequence[Scorecard]) -> tuple[PlainRow, ...]:
    rows = []
    for nodes in sorted({s.nodes for c in cards for s in c.capacity.scale}):
        found = [next((s.time for s in c.capacity.scale if s.nodes == nodes), None) for c in cards]
        shown = _scale([m for m in found if m is not None])
        cells = tuple(PlainCell("–", reason="no such launch") if m is None else _cell(m, shown) for m in found)
        rows.append(PlainRow(f"time to {nodes} {'node' if nodes == 1 else 'nodes'}", "from the request to the last pod running", cells))
    slots = sorted({s.slot for c in cards for s in c.capacity.shortage})
    for slot in slots if len(slots) > 1 else []:
        refused = [next((s for s in c.capacity.shortage if s.slot == slot), None) for c in cards]
        cells = tuple(PlainCell("–", reason="nothing was launched then") if r is None else _refused(r.refused, r.trials) for r in refused)
        rows.append(PlainRow(f"refused at {slot} UTC", "launches in that slot that ended for want of capacity", cells))
    every = tuple(_refused(c.capacity.refused, tuple(t for s in c.capacity.shortage for t in s.trials)) for c in cards)
    rows.append(PlainRow("refused", "launches that ended for want of capacity, over all slots", every))
    limits = tuple(PlainCell("–" if c.capacity.reason else "", reason=c.capacity.reason) for c in cards)
    return (
        (*rows, PlainRow("not known", "what these launches cannot say of the capacity", limits))
        if any(c.reason for c in limits)
        else tuple(rows)
    )


def _refused(share: Share, trials: tuple[str, ...]) -> PlainCell:
    if share.ratio is None:
        return PlainCell("–", reason="nothing was launched")
    return PlainCell(percent(share.ratio), _share(share), mark="bad" if share.successes else "", trials=trials)


def _share(share: Share) -> str:
    return f"{share.successes} of {share.n} ({percent(share.low)} … {percent(share.high)})"


def _shares(
    card: Scorecard, references: References, providers: Mapping[str, Provider], workloads: Mapping[str, AnyWorkload]
) -> tuple[ShareLine, ...]:
    provider, workload = providers.get(card.provider), workloads.get(card.workload)
    if provider is None or workload is None:
        return ()
    return tuple(
        ShareLine(card.provider, share_sentence(s), s.kind, s.share is not None, s.share, s.trials, " of " in s.what)
        for s in shares(card, references, provider, workload)
    )
