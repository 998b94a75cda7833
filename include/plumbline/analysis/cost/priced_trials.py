"""Trials with their costs as further numbers, at the prices of a day: of instances by the hour, of hosted models by tokens and requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from plumbline.analysis.cost.all_in import all_in
from plumbline.analysis.cost.formula import Formula, SharedBills
from plumbline.analysis.cost.interruptions import loss_rate
from plumbline.analysis.cost.token_costs import UNCOUNTED, charged_usd, token_costs, token_rate
from plumbline.analysis.cost.unit_costs import Cost, cost_per_finished_run, costs_of
from plumbline.analysis.prices.book import InstanceShare, charged, paid_of, quote, share_of
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.rows import metric_row


def with_costs(
    trials: Iterable[TrialSample],
    providers: Mapping[str, Provider],
    on: date,
    *,
    workloads: Mapping[str, AnyWorkload] | None = None,
    purchase: Purchase = "on_demand",
    economics: Economics | None = None,
) -> tuple[TrialSample, ...]:
    """The same trials with their costs at the prices that hold on the day `on`, as further numbers: in the sweep what inference costs at the
    highest rate that keeps the SLO, in the steady phase all others.

    Costs that a trial already carries are replaced, so a price change re-scores old trials without a rerun. `workloads`: by name, for
    the size of an epoch and, with `economics`, the restarts that are expected and what is paid beside the hours (`all_in`). A cost without a price is a number without a value.
    """
    result = []
    trials = tuple(trials)
    lost = _lost_s(trials)
    for trial in trials:
        provider = providers.get(trial.provider)
        if provider is None or not trial.usable:
            result.append(trial)
            continue
        workload = (workloads or {}).get(trial.workload)
        if provider.token_prices:
            costs = token_costs(provider, on, trial.usage, trial.value)
            costs += (_cost_per_finished_run(provider, on, trial, trials),)
            result.append(_all_in(trial, costs, None, provider, workload, economics, on))
            continue
        share = share_of(provider, trial.gpus)
        whole = quote(provider, on, purchase)
        paid = charged(whole, paid_of(provider, trial.gpus))
        loss = loss_rate(economics or Economics(), trial.provider, workload, purchase)
        costs = costs_of(
            trial.kind,
            charged(whole, share),
            trial.value,
            paid=paid,
            held_s=trial.held_s,
            epoch_size=workload.epoch_size if workload is not None else None,
            nodes=trial.nodes,
            loss=loss,
        )
        costs += (cost_per_finished_run(paid, trial.held_s, lost[trial.provider, trial.workload]),)
        restarts = loss.rate if loss and trial.value("restart_penalty", "value", "recovery") is not None else None
        result.append(replace(_all_in(trial, costs, share, provider, workload, economics, on), restarts=restarts))
    return tuple(result)


def _all_in(
    trial: TrialSample,
    costs: tuple[Cost, ...],
    share: InstanceShare | None,
    provider: Provider,
    workload: AnyWorkload | None,
    economics: Economics | None,
    on: date,
) -> TrialSample:
    if workload is None or economics is None:
        return _with_metrics(trial, costs, share)
    found = all_in(costs, provider, workload, economics, on, trial.value, trial.nodes)
    priced = _with_metrics(trial, found.costs, share)
    return replace(priced, includes=found.includes, without=found.without, uncosted=found.uncosted)


def _lost_s(trials: Iterable[TrialSample]) -> dict[tuple[str, str], float | None]:
    """By provider and workload, the seconds that attempts without usable numbers held the provider, over the number of usable ones.

    None where one of them was launched and its time is not known. A trial that is missing never held anything.
    """
    usable: dict[tuple[str, str], int] = {}
    lost: dict[tuple[str, str], float | None] = {}
    for trial in trials:
        place = trial.provider, trial.workload
        if trial.usable:
            usable[place] = usable.get(place, 0) + 1
        elif trial.status != "missing":
            so_far = lost.get(place, 0.0)
            lost[place] = None if so_far is None or trial.held_s is None else so_far + trial.held_s
    return {place: None if (total_s := lost.get(place, 0.0)) is None else total_s / n for place, n in usable.items()}


def _with_metrics(trial: TrialSample, priced: Sequence[Cost], share: InstanceShare | None) -> TrialSample:
    costs = tuple(metric_row(c.metric, c.value, 1, phase=c.phase, statistic="value") for c in priced)
    names = {c.metric for c in costs}
    return replace(trial, share=share, metrics=tuple(m for m in trial.metrics if m.metric not in names) + costs)


def _cost_per_finished_run(provider: Provider, on: date, trial: TrialSample, trials: Sequence[TrialSample]) -> Cost:
    """The bill of a finished run and its share of those of attempts that came to nothing; None where an attempt's bill is not known."""
    rate = token_rate(provider, on)
    if isinstance(rate, str):
        return Cost("cost_per_finished_run", None, None, reason=rate)
    own = [t for t in trials if (t.provider, t.workload) == (trial.provider, trial.workload)]
    finished, lost = sum(t.usable for t in own), [t for t in own if not t.usable and t.status != "missing"]
    bills = [charged_usd(rate, t.usage) for t in (trial, *lost)]
    known = [bill for bill in bills if bill is not None]
    if len(known) < len(bills):
        return Cost("cost_per_finished_run", None, None, reason=UNCOUNTED)
    return Cost(
        "cost_per_finished_run",
        known[0] + sum(known[1:]) / finished,
        None,
        Formula(SharedBills(len(lost), finished)),
    )
