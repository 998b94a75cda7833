"""The cost of an outcome, all in: its instance's hours, and beside them support, egress, storage and people's time. Every ranking reads it here.

support share            of what the instances cost
amounts by the month     over the declared volume, as forecasts do; without one those with `instance_hours` by the hour, as bills do
endpoint scaled to zero  the month's bill at the declared volume over that volume; not known without one

What is not declared, or cannot be shared without a volume, is no part of the cost and is named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from plumbline.analysis.cost.forecast import ForecastInputs
from plumbline.analysis.cost.formula import Formula, HourlyPart, MonthlyPart, SupportShare, TimeUp
from plumbline.analysis.cost.interruptions import unknown_loss
from plumbline.analysis.cost.scenarios import Range
from plumbline.analysis.cost.unit_costs import AT_OFFERED_RATE, COSTS, HOUR_S, Cost, MetricLookup, Outcome
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Economics
from plumbline.metrics.units import Amount

FURTHER = (
    ("request_latency", "mean", "steady"),
    ("checkpoint_size", "value", "steady"),
    ("time_to_ready", "value", "cold_start"),
    ("first_inference_latency", "value", "cold_start"),
)
"""Numbers (metric, statistic, phase) that they rest on beside the rates."""
RUNS = ("cost_per_run", "cost_per_finished_run")
_ITEMS = ("support", "egress", "storage", "engineering")
_INTERRUPTIONS = "interruptions"
_NO_VOLUME = "no volume is declared"


class Priced(NamedTuple):
    """The declarations that a cost rests on, at the prices of the day `on`."""

    provider: Provider
    workload: AnyWorkload
    economics: Economics
    on: date


class AllInCosts(NamedTuple):
    """`includes`: what is in the costs beside the hours; `without`: what is not and why. `uncosted`: why outcomes have no cost."""

    costs: tuple[Cost, ...]
    includes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    uncosted: str = ""


@dataclass
class _TrialInputs(ForecastInputs):
    """Declared figures with the numbers of one trial."""

    lookup: MetricLookup = field(kw_only=True)

    def measured(self, metric: str, statistic: str, phase: str = "steady") -> Range | None:
        value = self.lookup(metric, statistic, phase)
        return None if value is None or not 0 <= value < math.inf else Range.fixed(value)


@dataclass(frozen=True)
class _Beside:
    """`share`: of what the instances cost; USD by item, an instance-hour and a month."""

    share: float
    hourly: dict[str, Amount]
    monthly: dict[str, Amount]

    def added(self, cost: Cost, amount: float, volume: float | None) -> Cost:
        """The cost with its part. `volume`: outcomes a month, of which the cost is for `amount`; None: not known, or a run."""
        assert cost.value is not None and cost.formula is not None
        beside, value = list[SupportShare | MonthlyPart | HourlyPart](), cost.value
        if self.share:
            value += cost.value * self.share
            beside.append(SupportShare(self.share))
        if volume is not None and (usd := sum(self.monthly.values())):
            value += usd * amount / volume
            beside.append(MonthlyPart(usd, tuple(self.monthly), amount, volume))
        elif volume is None and cost.basis is not None and cost.basis.usd_per_hour and (usd := sum(self.hourly.values())):
            hours = cost.value / cost.basis.usd_per_hour * (cost.basis.share.fraction if cost.basis.share else 1.0)
            value += usd * hours
            beside.append(HourlyPart(usd, tuple(self.hourly)))
        return replace(cost, value=value, formula=replace(cost.formula, beside=tuple(beside)))


def all_in(
    costs: Iterable[Cost], provider: Provider, workload: AnyWorkload, economics: Economics, on: date, measured: MetricLookup, nodes: int = 1
) -> AllInCosts:
    """One trial's costs by the hour (`costs_of`, `token_costs`), all in. `measured`: its numbers; of prices on the day `on`."""
    inputs = _TrialInputs(provider, workload, (), economics, on, lookup=measured)
    beside, known, without = _beside(inputs)
    outcomes = {o.metric: o for o in COSTS if o.kind == workload.kind and o.delivered(measured) is not None}
    declared, found, uncosted = economics.assumed("volume", provider.name, workload.name) is not None, list[Cost](), ""
    for cost in costs:
        outcome = outcomes.get(cost.metric)
        if cost.value is None or (outcome is None and cost.metric not in RUNS and not (provider.token_prices and cost.basis is None)):
            found.append(cost)
            continue
        outcome = outcome or next((o for o in COSTS if o.metric == cost.metric), None)
        amount = _amount(outcome, workload)
        volume = None if outcome is None or not declared else inputs.volume(outcome)
        if outcome is not None and cost.basis is not None and cost.basis.purchase == "serverless":
            cost = _scaled(inputs, cost, outcome, amount, volume, nodes)
            uncosted = uncosted or (cost.reason if isinstance(cost.reason, str) else "")
        found.append(cost if cost.value is None else beside.added(cost, amount, volume))
    if declared and any(u.what == "volume" for u in inputs.unknown):
        without = dict.fromkeys(beside.monthly, "the volume is declared in what was not measured") | without
    shared = [*(("support",) if beside.share else ()), *(beside.monthly if declared else beside.hourly)]
    if failing := unknown_loss(economics, provider.name, workload, measured):
        without[_INTERRUPTIONS] = failing
    included = tuple(item for item in _ITEMS if item in shared and item not in without)
    return AllInCosts(
        tuple(found),
        included,
        tuple(f"{i}: {without[i]}" for i in (*_ITEMS, _INTERRUPTIONS) if i in without and i not in known),
        uncosted,
    )


def _amount(outcome: Outcome | None, workload: AnyWorkload) -> float:
    """Outcomes that a cost is for; of a run one."""
    if outcome is None:
        return 1.0
    return float(outcome.amount or workload.epoch_size or 1.0)


def _beside(inputs: _TrialInputs) -> tuple[_Beside, set[str], dict[str, str]]:
    """What is paid beside the hours; the items that are known to be nothing; and by item why it is not in the cost."""
    provider, on = inputs.provider, inputs.on
    volume = inputs.economics.assumed("volume", provider.name, inputs.workload.name)
    support, share = inputs.support()
    spans = {item: inputs.monthly_data(item) for item in ("egress", "storage")}
    monthly = {"support": support, **{i: None if s is None else s.expected for i, s in spans.items()}, "engineering": inputs.engineering()}
    why = {u.what: "not declared" if "is not known" in u.reason else u.reason for u in inputs.unknown if u.what in _ITEMS}
    hourly = {
        "support": sum(
            p.per_month.amount * p.usd_per_unit / p.instance_hours
            for p in provider.support
            if p.holds(on) and p.per_month is not None and p.instance_hours is not None
        ),
        "engineering": sum(
            o.time / HOUR_S * o.price.amount * o.usd_per_unit / o.instance_hours
            for o in provider.overhead
            if o.per == "month" and o.holds(on) and o.instance_hours is not None
        ),
    }
    if inputs.economics.assumed("engineering", provider.name, inputs.workload.name) is not None:
        hourly.pop("engineering")  # the declared amount goes before the overhead, and only a volume shares it
    if volume is None:
        why |= {i: _NO_VOLUME for i, usd in monthly.items() if usd and not hourly.get(i)}
    known = {item for item, usd in monthly.items() if usd == 0}
    positive = {item: usd for item, usd in monthly.items() if usd}
    return _Beside(share, {i: usd for i, usd in hourly.items() if usd}, positive), known, why


def _scaled(inputs: _TrialInputs, cost: Cost, outcome: Outcome, amount: float, volume: float | None, nodes: int) -> Cost:
    """The cost of an outcome of an endpoint that scales to zero: what a month is billed at the declared volume."""
    assert cost.basis is not None

    def unknown(reason: str) -> Cost:
        return replace(cost, value=None, formula=None, reason=reason)

    suffix = AT_OFFERED_RATE if outcome.metric.endswith(AT_OFFERED_RATE) else ""
    served = next(o for o in COSTS if o.metric == f"cost_per_1k_requests{suffix}")
    requests, rate = inputs.volume(served), served.delivered(inputs.lookup)
    if volume is None or requests is None or rate is None:
        return unknown(f"what {inputs.provider.name} bills depends on how often requests come: {_NO_VOLUME} of {inputs.workload.name}")
    found = inputs.scale_to_zero(rate)
    if isinstance(found, str):
        return unknown(found)
    hours = found.hours(requests)
    value = nodes * cost.basis.usd_per_hour * hours * amount / volume
    return replace(cost, value=value, formula=Formula(TimeUp(hours, amount, volume, outcome.what)))
