"""A campaign's verdict, shortest form: who is first for each workload, what drifted, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plumbline.analysis.busy_machine import BusyMachine
from plumbline.analysis.campaign_data import FindingRow, SeriesDrift
from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.bill import Money
from plumbline.analysis.decisions.certainty import first_sentence
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.drift.series_state import STATES
from plumbline.analysis.scorecards.scorecard import leaders, leading_metric, leading_row
from plumbline.metrics.formatting import common_scale, format_name, format_percent, join_words
from plumbline.presentation.card_tables import CardTable, card_tables
from plumbline.results.finding import OPEN_STATES, gravity


@dataclass(frozen=True)
class Bar:
    """One provider's number. `share`: of the largest one, 0 to 1. `best`: no other is shown to be better."""

    provider: str
    text: str
    interval: str
    share: float
    best: bool


@dataclass(frozen=True)
class WorkloadVerdict:
    """One workload: `bars` of its leading metric, best first; `choices`: each team's first choice in words, or
    the leader where no team weighs it; `without`: not measured, by provider with why."""

    kind: str
    workload: str
    title: str
    metric: str
    arrow: str
    bars: tuple[Bar, ...]
    choices: tuple[str, ...]
    weighed: bool
    without: dict[str, str]


@dataclass(frozen=True)
class CampaignVerdict:
    """`trials`: by status. `series`: by their state in words, the gravest first. `busy`: why nothing is ranked, or empty.
    `criteria`: by outcome. `costs`: sentences. `findings`: most severe first."""

    campaign_id: str
    reason: str
    simulated: bool
    providers: tuple[str, ...]
    trials: dict[str, int]
    workloads: tuple[WorkloadVerdict, ...]
    findings: tuple[FindingRow, ...]
    series: dict[str, int]
    criteria: dict[str, int]
    costs: tuple[str, ...]
    busy: str = ""


def campaign_verdict(conclusions: Conclusions) -> CampaignVerdict:
    """What a reader wants to know first; every number is one of the scorecards and decisions."""
    campaign, cards = conclusions.campaign, conclusions.cards
    counts: Counter[str] = Counter()
    for card in cards:
        counts.update({status: n for status, n in card.counts.items() if n})
    findings = sorted(campaign.findings, key=lambda f: (f.state not in OPEN_STATES, gravity(f.severity)))
    return CampaignVerdict(
        campaign_id=campaign.campaign_id,
        reason=campaign.reason,
        simulated=bool(cards) and all(c.simulated for c in cards),
        providers=tuple(sorted({c.provider for c in cards})),
        trials=dict(counts),
        workloads=tuple(_workload(table, conclusions) for table in card_tables(cards)),
        findings=tuple(findings),
        series=drift_counts(campaign.drift),
        criteria=dict(Counter(j.outcome for c in cards for j in c.acceptance)),
        costs=tuple(_costs(conclusions)),
        busy=busy_sentence(conclusions.busy) if conclusions.busy is not None else "",
    )


def drift_counts(drift: Sequence[SeriesDrift]) -> dict[str, int]:
    """How many series have each state, in words, the gravest first."""
    words = [format_name(d.state.state) if d.baseline else _WITHOUT_BASELINE for d in drift]
    return {name: words.count(name) for name in (*map(format_name, STATES), _WITHOUT_BASELINE) if name in words}


_WITHOUT_BASELINE = "without an earlier baseline"


def busy_sentence(busy: BusyMachine) -> str:
    """What comes first of a campaign that other load spoilt."""
    close = f"close {join_words(busy.programs)} and run again" if busy.programs else "run again when it is idle"
    return f"this machine was busy (others used {format_percent(busy.share)}): no winner; {close}"


def _workload(table: CardTable, conclusions: Conclusions) -> WorkloadVerdict:
    metric = leading_metric(table.cards)
    rows = {c.provider: row for c in table.cards if (row := leading_row(c, metric)) is not None and row.value is not None}
    first_row = next(iter(rows.values()), None)
    leading_providers = leaders(dict(rows)) if len(rows) > 1 and conclusions.busy is None else ()
    higher = first_row is not None and first_row.direction == "higher_is_better"
    ordered = sorted(rows.items(), key=lambda item: ((-1 if higher else 1) * (item[1].value or 0.0), item[0]))
    scale = common_scale(first_row.unit if first_row else "", [row.value for _, row in ordered], metric)
    largest = max((row.value or 0.0 for _, row in ordered), default=0.0)
    bars = tuple(
        Bar(
            provider,
            scale.text(row.value),
            f"{scale.number(row.low)} … {scale.number(row.high)}" if row.low is not None and row.high is not None else "",
            (row.value or 0.0) / largest if largest > 0 else 0.0,
            provider in leading_providers,
        )
        for provider, row in ordered
    )
    workload_decisions = [d for d in conclusions.decisions if d.kind == table.kind and table.workload in d.workloads]
    return WorkloadVerdict(
        kind=table.kind,
        workload=table.workload,
        title=table.title,
        metric=format_name(metric),
        arrow="↑" if higher else "↓" if first_row is not None and first_row.direction == "lower_is_better" else "",
        bars=bars,
        choices=() if conclusions.busy is not None else _choices(workload_decisions) or _leader_sentence(bars),
        weighed=bool(workload_decisions),
        without={c.provider: c.unusable or "not measured in any usable trial" for c in table.cards if c.provider not in rows},
    )


def _choices(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """One line for the teams that get the same answer."""
    teams_by_sentence: dict[str, list[str]] = {}
    for decision in decisions:
        teams_by_sentence.setdefault(first_sentence(decision), []).append(decision.team)
    return tuple(f"{join_words(teams)}: {sentence}" for sentence, teams in teams_by_sentence.items())


def _leader_sentence(bars: Sequence[Bar]) -> tuple[str, ...]:
    best_providers = [bar.provider for bar in bars if bar.best]
    if len(bars) < 2:
        return ()
    if len(best_providers) == 1:
        return (f"{best_providers[0]} leads; no team weighs this workload",)
    return (f"no clear winner among {len(best_providers) or len(bars)}; no team weighs this workload",)


def _costs(conclusions: Conclusions) -> Iterable[str]:
    """A sentence for each kind: the total, and the dearest providers."""
    for kind in ("training", "inference"):
        provider_costs = [c for c in conclusions.provider_costs if c.kind == kind]
        priced = [(c.bill.total, c) for c in provider_costs if c.bill.total is not None]
        if not provider_costs:
            continue
        if not priced:
            yield f"{kind} unknown: no declared price"
            continue
        currency = priced[0][0].currency
        same_currency = [(total, c) for total, c in priced if total.currency == currency]
        total = Money(sum(money.amount for money, _ in same_currency), currency)
        dearest = sorted(same_currency, key=lambda pair: (-pair[0].amount, pair[1].provider))
        parts = [f"{c.provider} {str(money).removesuffix(f' {currency}')}" for money, c in dearest[:3]]
        remainder = [f"{len(same_currency) - 3} more"] if len(same_currency) > 3 else []
        prefix = "" if len(same_currency) == len(provider_costs) and all(c.bill.complete for _, c in same_currency) else "at least "
        yield f"{kind} {prefix}{total}: {', '.join([*parts, *remainder])}"
