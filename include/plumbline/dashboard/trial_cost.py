"""What one trial cost, as rows of text: each line with its quantity, unit price, basis, source and date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.archive import Archive, TrialView
from plumbline.declarations import Declarations, Provider
from plumbline.prices import COSTS
from plumbline.prices.trial_bill import trial_bill
from plumbline.reports.bills import as_rejected, outcome_costs, use_of
from plumbline.reports.figures import scale, words
from plumbline.reports.priced import at_accepted_prices
from plumbline.results import ResultDocument


@dataclass(frozen=True)
class CostLine:
    item: str
    quantity: str
    unit_price: str
    cost: str
    basis: str
    source: str


@dataclass(frozen=True)
class TrialCost:
    """`unknown`: (item, reason) of what was used and has no price. `outcomes`: what came of it, each (name, cost or an en dash).
    `reason`: why there is no bill at all; empty if there is one."""

    lines: tuple[CostLine, ...] = ()
    total: str = ""
    at_least: bool = False
    day: str = ""
    unknown: tuple[tuple[str, str], ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()
    reason: str = ""


def trial_cost(archive: Archive, declared: Declarations, document: ResultDocument, attempts: Sequence[TrialView]) -> TrialCost:
    """The bill of one attempt by the prices of the day on which it began: what was accepted goes before what is declared.

    `attempts`: every archived attempt of its trial. What the quality checks rejected was paid for nothing, as `plumbline cost trial` says too.
    """
    trial = document.trial
    name = trial.provider.name
    if name not in declared.providers:
        return TrialCost(reason=f"{name} is no longer declared: its prices are not known.")
    provider, use = at_accepted_prices(archive, declared.providers[name]), use_of(document, kept_s=declared.upkeep.evidence.keep)
    rejected = any(a.attempt == trial.attempt and a.quality_action == "reject" for a in attempts)
    if rejected:
        use = as_rejected(use)
    # The last attempt carries the trial's share of what the campaign costs once.
    last = trial.attempt == max(a.attempt for a in attempts)
    use = replace(use, share=1 / _trials_beside(archive, name, trial.campaign_id) if last else 0.0)
    bill = trial_bill(use, provider, use.day)
    lines = tuple(
        CostLine(
            " · ".join(filter(None, (words(line.item), line.what))),
            str(line.quantity),
            str(line.unit_price),
            str(line.cost),
            line.basis,
            line.source + (f", since {line.since}" if line.since else ""),
        )
        for line in bill.lines
    )
    return TrialCost(
        lines=lines,
        total=str(bill.total) if bill.total is not None else "",
        at_least=not bill.complete,
        day=str(use.day),
        unknown=tuple((words(each.item), each.reason) for each in bill.unknown),
        outcomes=() if rejected else _outcomes(document, provider, use.day),
    )


def _trials_beside(archive: Archive, provider: str, campaign_id: str) -> int:
    """How many trials the campaign has at the provider, by its series: an index finds each one's."""
    series = archive.series(provider=provider, campaign_id=campaign_id)
    return len({t.trial_id for s in series for t in archive.trials(campaign_id, s.series_key)})


def _outcomes(document: ResultDocument, provider: Provider, day: date) -> tuple[tuple[str, str], ...]:
    known = {outcome.metric for outcome in COSTS}
    found = [c for c in outcome_costs(document, provider, day) if c.metric in known]
    return tuple((words(c.metric), scale("USD", [c.value], c.metric).text(c.value)) for c in found if c.value is not None)
