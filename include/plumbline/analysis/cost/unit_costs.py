"""Cost of one outcome: the price of an hour over the outcomes measured in that hour."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.analysis.cost.formula import Formula, HeldTime, TimeAtRate
from plumbline.analysis.cost.interruptions import EndlessRun, LossRate
from plumbline.analysis.prices.book import Basis, Quote
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample, WorkloadKind
from plumbline.metrics import Phase, leading_names

HOUR_S = 3600.0
AT_OFFERED_RATE = "_at_offered_rate"
"""Suffix of costs that a faster provider does not lower: an open loop gets its offered rate from every provider."""

IDLE_REPLICAS = "idle_replica_cost"

MetricLookup = Callable[[str, str, str], float | None]
"""(metric, statistic, phase) → one trial's number in the catalogue's unit, None if absent."""


@dataclass(frozen=True)
class Cost:
    """One cost in USD. `value` is None exactly when `reason` says why; `formula`: how it was computed, None without a value; `phase`: see
    `phase_of`."""

    metric: str
    value: float | None
    basis: Basis | None
    formula: Formula | None = None
    reason: str | EndlessRun | None = None

    @property
    def phase(self) -> Phase:
        return phase_of(self.metric)


@dataclass(frozen=True)
class Outcome:
    """One cost metric: `amount` units of something that is measured as `rate` (a metric, per second).

    `sustained`: at the highest rate that keeps the SLO, which the sweep found; else at the rate of the steady phase.
    `without`: another rate, which tells of the same work where it is measured; this cost is left out there.
    `instead`: rates (metric, statistic, what they leave out) of results that were measured before `rate` was, best first.
    """

    metric: str
    kind: str
    rate: str
    statistic: str
    amount: float | None  # None: the amount is the workload's own (tokens of one epoch)
    what: str
    without: str | None = None
    sustained: bool = False
    instead: tuple[tuple[str, str, str], ...] = ()

    @property
    def shown_amount(self) -> float:
        """The amount that a cost is shown for: a single request costs a fraction of a cent, so a million of them."""
        return self.amount if self.amount is not None and self.amount > 1 else 1e6

    @property
    def phase(self) -> Phase:
        """The phase whose numbers the cost rests on."""
        return "sweep" if self.sustained else "steady"

    def delivered(self, measured: MetricLookup) -> float | None:
        """Units per second of one trial; None where they were not measured.

        Sustained: the highest rate of requests, times the share of them that finished at it, times the units of one that finished. The
        throughput of the probe itself would count the time in which the last answers come in, which weighs more the shorter the probe is.
        """
        if not self.sustained:
            return self._steady(measured)[0]
        highest, units = measured(SUSTAINED, "value", "sweep"), measured(self.rate, self.statistic, "sweep")
        finished, lost = measured("request_throughput", "value", "sweep"), measured("error_rate", "value", "sweep")
        if highest is None or units is None or finished is None or lost is None or finished <= 0:
            return None
        return highest * (1 - lost) * units / finished

    def left_out(self, measured: MetricLookup) -> str:
        """Costs that the rate of one trial omits, in words; empty if it omits none."""
        return "" if self.sustained else self._steady(measured)[1]

    @property
    def numbers(self) -> tuple[tuple[str, str], ...]:
        """(metric, statistic) of every rate that the cost can rest on, best first."""
        return ((self.rate, self.statistic), *((metric, statistic) for metric, statistic, _ in self.instead))

    def _steady(self, measured: MetricLookup) -> tuple[float | None, str]:
        for metric, statistic, without in ((self.rate, self.statistic, ""), *self.instead):
            if (rate := measured(metric, statistic, "steady")) is not None:
                return rate, without
        return None, ""


def _of_training(metric: str, unit: str, amount: float | None, what: str, without: str | None = None) -> Outcome:
    """Work over the whole time of the steady part, checkpoints at their declared interval: that is paid. The median step is a speed."""
    rate = f"{unit}_per_second"
    before = (rate, "mean", "checkpoints"), (rate, "median", "checkpoints and slow steps")
    return Outcome(metric, "training", f"effective_{rate}", "mean", amount, what, without=without, instead=before)


def _of_inference(metric: str, rate: str, amount: float, what: str) -> Iterator[Outcome]:
    yield Outcome(metric, "inference", rate, "value", amount, what, sustained=True)
    yield Outcome(metric + AT_OFFERED_RATE, "inference", rate, "value", amount, what)


COSTS: tuple[Outcome, ...] = (
    _of_training("cost_per_1m_trained_tokens", "tokens", 1e6, "trained tokens"),
    _of_training("cost_per_1m_trained_samples", "samples", 1e6, "trained samples", without="tokens_per_second"),
    _of_training("cost_per_epoch", "tokens", None, "trained tokens (one pass over the data)"),
    _of_training("cost_per_epoch", "samples", None, "trained samples (one pass over the data)", without="tokens_per_second"),
    *_of_inference("cost_per_1k_requests", "request_throughput", 1e3, "requests"),
    *_of_inference("cost_per_1m_input_tokens", "input_token_throughput", 1e6, "input tokens"),
    *_of_inference("cost_per_1m_output_tokens", "output_token_throughput", 1e6, "output tokens"),
    *_of_inference("cost_per_good_request", "goodput", 1.0, "requests within the SLO"),
)
_SUSTAINED = frozenset(o.metric for o in COSTS if o.sustained)


def sustained(metric: str) -> bool:
    """Whether the metric is a cost at the highest rate that keeps the SLO."""
    return metric in _SUSTAINED


def phase_of(metric: str) -> Phase:
    """The phase that a cost's numbers belong to."""
    return "scale_out" if metric == IDLE_REPLICAS else "sweep" if sustained(metric) else "steady"


def costs_of(
    kind: str,
    quote: Quote,
    measured: MetricLookup,
    *,
    paid: Quote | None = None,
    held_s: float | None = None,
    epoch_size: int | None = None,
    nodes: int = 1,
    loss: LossRate | None = None,
) -> tuple[Cost, ...]:
    """Every cost metric of one trial of `kind` ("training" or "inference").

    `quote`: of the trial's share of the instance; `paid`: of what is paid while the trial holds it, which the run costs (None: the same).
    `held_s`: seconds that the trial held the provider, idle time included, summed over its nodes. `epoch_size`: tokens of one pass
    over the data, or samples of what is not counted in tokens. `nodes`: instances that together delivered what was measured, each at the quoted price.
    `loss`: interruptions, of which outcomes carry the expected restarts and work done again; a run costs what it cost.
    """
    costs = [cost_per_run(paid or quote, held_s)]
    if (idle_s := measured("idle_replica_time", "value", "scale_out")) is not None:
        costs.append(_cost_of_time(IDLE_REPLICAS, quote, idle_s, ""))
    for outcome in COSTS:
        if outcome.kind != kind:
            continue
        if outcome.without is not None and (
            measured(outcome.without, "median", "steady") is not None or outcome.delivered(measured) is None
        ):
            continue
        amount = outcome.amount if outcome.amount is not None else epoch_size
        if amount is None:
            costs.append(Cost(outcome.metric, None, quote.basis, reason="the size of one epoch is not known"))
        else:
            cost = cost_of_outcome(outcome, quote, amount, outcome.delivered(measured), nodes)
            if loss is not None:
                cost = _with_restarts(cost, loss, measured)
            if cost.formula is not None:
                cost = replace(cost, formula=replace(cost.formula, left_out=outcome.left_out(measured)))
            costs.append(cost)
    return tuple({cost.metric: cost for cost in costs}.values())


def _with_restarts(cost: Cost, loss: LossRate, measured: MetricLookup) -> Cost:
    if cost.value is None or cost.formula is None:
        return cost
    restarts = loss.stretch(measured)
    if isinstance(restarts, EndlessRun):
        return replace(cost, value=None, formula=None, reason=restarts)
    return replace(cost, value=cost.value * restarts.factor, formula=replace(cost.formula, restarts=restarts))


def cost_per_run(quote: Quote, held_s: float | None) -> Cost:
    """Price × the time that one trial held its nodes, from request (on a cluster: from the node's assignment) to release."""
    known = held_s is not None and math.isfinite(held_s) and held_s > 0
    return _cost_of_time("cost_per_run", quote, held_s if known else None, "the time that the trial held the provider was not recorded")


def _cost_of_time(metric: str, quote: Quote, seconds: float | None, unknown: str) -> Cost:
    if quote.basis is None:
        return Cost(metric, None, None, reason=quote.reason)
    if seconds is None:
        return Cost(metric, None, quote.basis, reason=unknown)
    return Cost(metric, quote.basis.usd_per_hour * seconds / HOUR_S, quote.basis, Formula(HeldTime(seconds)))


def cost_per_finished_run(quote: Quote, held_s: float | None, lost_s: float | None) -> Cost:
    """Price × the time that one finished run held its nodes and its share of what attempts held that came to nothing.

    `lost_s`: the seconds of all those attempts over the number of finished runs; None if they are not known.
    """
    own = cost_per_run(quote, held_s)
    if own.value is None or quote.basis is None or held_s is None:
        return replace(own, metric="cost_per_finished_run")
    if lost_s is None:
        return Cost("cost_per_finished_run", None, quote.basis, reason="the time that failed attempts held the provider was not recorded")
    price = quote.basis.usd_per_hour
    return Cost("cost_per_finished_run", price * (held_s + lost_s) / HOUR_S, quote.basis, Formula(HeldTime(held_s, lost_s)))


def cost_of_outcome(outcome: Outcome, quote: Quote, amount: float, per_second: float | None, nodes: int = 1) -> Cost:
    """Price × the time that `amount` outcomes take at the rate `per_second` of all `nodes`, as `Outcome.delivered` gives it."""
    if quote.basis is None:
        return Cost(outcome.metric, None, None, reason=quote.reason)
    if per_second is None or not math.isfinite(per_second):
        return Cost(outcome.metric, None, quote.basis, reason=not_measured(outcome))
    if per_second <= 0:
        return Cost(outcome.metric, None, quote.basis, reason=f"{outcome.numbers[-1][0]} was {per_second:g}: no outcome was delivered")
    price = quote.basis.usd_per_hour
    value = nodes * price / HOUR_S * amount / per_second
    load: Literal["sustained", "offered"] | None = None
    if outcome.kind == "inference":
        load = "sustained" if outcome.sustained else "offered"
    return Cost(outcome.metric, value, quote.basis, Formula(TimeAtRate(nodes, amount, outcome.what, per_second, load)))


def not_measured(outcome: Outcome) -> str:
    """Why a cost has no rate to rest on."""
    if outcome.sustained:
        return f"{outcome.rate} at the highest rate that keeps the SLO was not measured: no sweep, or one that found no highest rate"
    return f"{outcome.numbers[-1][0]} was not measured"


def fitting_cost(kind: WorkloadKind, workload: str, trials: Sequence[TrialSample]) -> str:
    """The cost metric that fits what was measured: the first of the kind's that any usable trial of the workload has a value of. Of
    inference at the highest rate that keeps the SLO: at an offered rate every provider costs its price. What counts no work costs its runs."""
    own = [t for t in trials if t.usable and t.kind == kind and t.workload == workload]
    measured = {m.metric for t in own for m in t.metrics if m.value is not None}
    costs = leading_names(f"{kind}_cost")
    uncounted = "cost_per_run" if kind == "training" and "cost_per_run" in measured else costs[0]
    return next((name for name in costs if name in measured), uncounted)
