"""Bills as rows: of a campaign by provider, of one trial, of each outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.analysis.cost.bill import Bill, Line, Money
from plumbline.analysis.cost.campaign_bill import ProviderCost, outcome_costs, rejected_usage, usage_of
from plumbline.analysis.cost.trial_bill import trial_bill
from plumbline.analysis.cost.unit_costs import COSTS, IDLE_REPLICAS, not_measured
from plumbline.analysis.prices.book import OTHER_GPUS_TEXT, Quote, with_effective_prices
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.archive import Archive, TrialView
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.economics import Economics
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import common_scale, format_count, format_name
from plumbline.metrics.names import names_by_text
from plumbline.presentation.card_tables import card_tables
from plumbline.results import ResultDocument


def finished_runs(cost: ProviderCost) -> str:
    """How many runs of a bill finished, and what was lost, in words."""
    lost = f", {format_count(cost.lost, 'attempt')} lost" if cost.lost else ""
    return f"{cost.finished} of {cost.trials} runs finished{lost}"


def share_note(bill: Bill) -> str:
    """Payments for machines beside the trials' share of them, in words; empty if both are equal."""
    if bill.paid is None or bill.paid == bill.share:
        return ""
    return f"paid for machines: {bill.paid}; the trials' share of it: {bill.share} ({OTHER_GPUS_TEXT})"


def unknown_reasons(cost: ProviderCost) -> tuple[str, ...]:
    """Each reason for an excluded item once, with its items."""
    items = names_by_text((format_name(unknown.item), unknown.reason) for unknown in cost.bill.unknown)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in items.items())


def format_amount(amount: Money | None) -> str:
    return "–" if amount is None else str(amount)


@dataclass(frozen=True)
class CostRow:
    name: str
    meaning: str
    kind: str
    workload: str
    cells: tuple[str, ...]
    reasons: tuple[str, ...]


def cost_rows(cards: Sequence[Scorecard], providers: Sequence[str], quotes: Mapping[str, Quote]) -> tuple[CostRow, ...]:
    """Cost of a run and of each outcome, by provider; `reasons`: why a cell is empty."""
    rows = []
    for table in card_tables(cards, rows=False):
        by_provider = {c.provider: c for c in table.cards}
        outcomes = [
            outcome
            for outcome in COSTS
            if outcome.kind == table.kind and (outcome.without is None or any(c.row(outcome.metric) for c in table.cards))
        ]
        idle = [IDLE_REPLICAS] if any(c.row(IDLE_REPLICAS) for c in table.cards) else []
        for metric in ("cost_per_run", "cost_per_finished_run", *idle, *(outcome.metric for outcome in outcomes)):
            values = {p: (r.value if (c := by_provider.get(p)) and (r := c.row(metric)) else None) for p in providers}
            scale = common_scale("USD", values.values(), metric)
            rows.append(
                CostRow(
                    format_name(metric),
                    METRICS[metric].description,
                    table.kind,
                    table.title,
                    tuple(scale.text(values[p]) for p in providers),
                    tuple("" if values[p] is not None else _why_no_cost(by_provider.get(p), quotes.get(p), metric) for p in providers),
                )
            )
    return tuple(rows)


def _why_no_cost(card: Scorecard | None, quote: Quote | None, metric: str) -> str:
    if card is None:
        return "no trial of this workload"
    if not card.usable:
        return card.unusable
    if quote is None or quote.basis is None:
        return (quote.reason if quote else None) or "no declared price"
    if metric in ("cost_per_run", "cost_per_finished_run"):
        return "time on the provider not recorded"
    outcome = next((o for o in COSTS if o.metric == metric), None)
    return "its replicas were not seen to scale" if outcome is None else f"{not_measured(outcome)}, or was zero"


@dataclass(frozen=True)
class TrialCostView:
    """The bill of one attempt. `share`: see `share_note`. `unknown`: (item, reason). `outcomes`: (name, unit cost). `reason`: why there is no bill; empty if there is one."""

    lines: tuple[Line, ...] = ()
    total: str = ""
    at_least: bool = False
    day: str = ""
    share: str = ""
    unknown: tuple[tuple[str, str], ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()
    reason: str = ""


def trial_cost(archive: Archive, declared: Declarations, document: ResultDocument, attempts: Sequence[TrialView]) -> TrialCostView:
    """The bill of one attempt at effective prices of the day on which it began; a rejected attempt has no outcomes.

    `attempts`: every archived attempt of its trial.
    """
    trial = document.trial
    name = trial.provider.name
    if name not in declared.providers:
        return TrialCostView(reason=f"{name} is no longer declared: prices unknown.")
    provider = with_effective_prices(declared.providers[name], archive.prices(name))
    usage = usage_of(document, retention_s=declared.upkeep.evidence.keep)
    rejected = any(a.attempt == trial.attempt and a.quality_action == "reject" for a in attempts)
    if rejected:
        usage = rejected_usage(usage)
    # The last attempt has the trial's share of the campaign's fixed costs.
    is_last = trial.attempt == max(a.attempt for a in attempts)
    usage = replace(usage, share=1 / _trials_in_campaign(archive, name, trial.campaign_id) if is_last else 0.0)
    bill = trial_bill(usage, provider, usage.day)
    return TrialCostView(
        lines=bill.lines,
        total=str(bill.total) if bill.total is not None else "",
        at_least=not bill.complete,
        day=str(usage.day),
        share=share_note(bill),
        unknown=tuple((format_name(unknown.item), unknown.reason) for unknown in bill.unknown),
        outcomes=() if rejected else _outcomes(document, provider, usage.day, declared.economics),
    )


def _trials_in_campaign(archive: Archive, provider: str, campaign_id: str) -> int:
    series = archive.series(provider=provider, campaign_id=campaign_id)
    return len({t.trial_id for s in series for t in archive.trials(campaign_id, s.series_key)})


def _outcomes(document: ResultDocument, provider: Provider, day: date, economics: Economics) -> tuple[tuple[str, str], ...]:
    metrics = {IDLE_REPLICAS, *(outcome.metric for outcome in COSTS)}
    costs = [c for c in outcome_costs(document, provider, day, economics=economics) if c.metric in metrics]
    return tuple((format_name(c.metric), common_scale("USD", [c.value], c.metric).text(c.value)) for c in costs if c.value is not None)
