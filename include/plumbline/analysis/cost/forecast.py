"""Cost forecast of one outcome on one provider: inputs (measured rates, prices, declared economics), best, expected and worst case, drivers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal

from plumbline.analysis.cost.interruptions import EndlessRun, Restarts, loss_rate, unknown_loss
from plumbline.analysis.cost.scale_to_zero import ScaleToZero
from plumbline.analysis.cost.scenarios import CostModel, FleetScenario, Range, Scenarios, Tornado, scenarios, tornado
from plumbline.analysis.cost.trial_bill import BYTES
from plumbline.analysis.cost.unit_costs import AT_OFFERED_RATE, COSTS, Outcome, not_measured
from plumbline.analysis.prices.book import InstanceShare, charged, quote, share_of
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Checkpoints, DataRange, Economics, SourcedFigure, Utilisation
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics import leading_names
from plumbline.metrics.pooling import pool

RATES = {
    "requests": ("request_throughput", "value"),
    "output_tokens": ("output_token_throughput", "value"),
    "trained_tokens": ("tokens_per_second", "median"),
    "trained_samples": ("samples_per_second", "median"),
}
"""Unit of a declared volume or run → metric of its rate per second."""
_FAULT = "a workload that declares a fault measures it"
_EXAMPLES = {
    "price": "price: {low: 0.8x, expected: 1x, high: 1.1x}",
    "utilisation": "utilisation: {low: 40%, expected: 60%, high: 80%}",
    "failure_rate": "failure_rate: {low: 0%, expected: 2%, high: 5%}",
    "egress": "egress: {low: 100GB, expected: 200GB, high: 400GB}",
    "storage": "storage: {low: 100GB, expected: 200GB, high: 400GB}",
    "engineering": "engineering: 15000 USD/month",
    "run": "run: {time: 500h}",
}


@dataclass(frozen=True)
class UnknownInput:
    """An unknown that the cost depends on. `remedy`: what to declare or to measure."""

    what: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


@dataclass(frozen=True)
class HourlyPrice:
    """USD an hour of all instances that one trial takes, what that rests on, and how it is paid. `copies`: how many deployments of the workload fit on
    an instance that is paid whole, and deliver together."""

    hourly: Range
    basis: str
    purchase: Purchase
    copies: int = 1

    @property
    def whole(self) -> bool:
        """Whether it buys whole instances, used or not."""
        return self.purchase in ("reserved", "owned")


def _part_of(purchase: Purchase, share: InstanceShare | None) -> tuple[InstanceShare | None, int]:
    """The part of an instance that the workload is charged, and how many deployments of it fit on one that is paid whole: an eighth of an instance
    is neither owned nor, where instances are sold, reserved."""
    if share is None or not (purchase == "owned" or (purchase == "reserved" and share.assumed)):
        return share, 1
    return None, share.of // share.gpus


def _beside(copies: int) -> str:
    return f" for {copies} deployments on an instance" if copies > 1 else ""


@dataclass(frozen=True)
class RateBasis:
    """What a rate rests on. `per_second`: outcomes at the load; `sustained`: requests at the highest rate that keeps the SLO, where
    `steady` is what the steady phase offered. `restarts`: of a training that is interrupted. `up`: the endpoint that scales to
    zero."""

    load: Literal["steady", "offered", "sustained"]
    per_second: float
    steady: float | None = None
    restarts: Restarts | None = None
    up: ScaleToZero | None = None


@dataclass(frozen=True)
class DeliveredRate:
    """Outcomes a second of fully used instances, the basis, and the trials behind the rate."""

    rate: Range
    basis: RateBasis
    trials: tuple[str, ...]


@dataclass
class ForecastInputs:
    """What is asked fills `unknown` (what is not known) and `sources` (who declared what), each once."""

    provider: Provider
    workload: AnyWorkload
    trials: Sequence[TrialSample]
    economics: Economics
    on: date
    unknown: list[UnknownInput] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)

    @cached_property
    def usable(self) -> list[TrialSample]:
        """The trials of this provider and workload whose numbers count."""
        place = (self.provider.name, self.workload.name)
        return [t for t in self.trials if t.usable and (t.provider, t.workload) == place]

    def measured(self, metric: str, statistic: str, phase: str = "steady") -> Range | None:
        """The median over usable repeats and its interval; of one repeat the interval that its own observations give. None: not measured."""
        numbers = [n for t in self.usable if (n := t.number(metric, statistic, phase)) is not None and n.value is not None]
        values = [n.value for n in numbers if n.value is not None]
        if not values:
            return None
        pooled = pool(values)
        low, high = (pooled.low, pooled.high) if len(values) > 1 else (numbers[0].ci_low, numbers[0].ci_high)
        return Range(pooled.value if low is None else low, pooled.value, pooled.value if high is None else high)

    def expected(self, metric: str, statistic: str, phase: str) -> float | None:
        """The median of `measured`."""
        found = self.measured(metric, statistic, phase)
        return None if found is None else found.expected

    def measured_in(self, metric: str, statistic: str, phase: str) -> tuple[str, ...]:
        """The ids of the trials behind `measured`."""
        return tuple(t.trial_id for t in self.usable if t.value(metric, statistic, phase) is not None)

    def at_best(self, metric: str) -> Outcome:
        """The cost metric at the highest rate that keeps the SLO where a search found it, else at the offered rate; of training itself."""
        outcome = next(o for o in COSTS if o.metric == metric)
        offered = next((o for o in COSTS if o.metric == metric + AT_OFFERED_RATE), outcome)
        known = any(outcome.delivered(t.value) is not None for t in self.usable)
        return outcome if known or not any(offered.delivered(t.value) is not None for t in self.usable) else offered

    def delivered(self, outcome: Outcome) -> DeliveredRate | str:
        """The rate that the cost rests on; or why it is not known.

        A steady phase sends what its workload declares: what an instance could do beyond that, only the search shows.
        """
        measured = [(t, rate) for t in self.usable if (rate := outcome.delivered(t.value)) is not None]
        if not measured or min(rate for _, rate in measured) <= 0:
            return f"{self.workload.name} on {self.provider.name}: {not_measured(outcome)} in any usable trial, or was 0"
        rates = pool([rate for _, rate in measured])
        low, high = (rates.low, rates.high) if len(measured) > 1 else _own_interval(outcome, *measured[0])
        span = Range(rates.value if low is None else low, rates.value, rates.value if high is None else high)
        return DeliveredRate(span, self._basis(outcome, span), tuple(t.trial_id for t, _ in measured))

    def _basis(self, outcome: Outcome, span: Range) -> RateBasis:
        if not outcome.sustained:
            return RateBasis("offered" if outcome.kind == "inference" else "steady", span.expected)
        highest, offered = self.measured(SUSTAINED, "value", "sweep"), self.measured("offered_rate", "value")
        return RateBasis("sustained", highest.expected if highest else 0.0, offered.expected if offered is not None else None)

    def price(self, purchase: Purchase) -> HourlyPrice | str:
        """The declared range of that purchase, else the price in the book and the declared multiples of it; or why there is none."""
        nodes, share = self.workload.nodes, share_of(self.provider, self.workload.gpus)
        several = f"{nodes} × " if nodes > 1 else ""
        declared = self.economics.price_per_hour(self.provider.name, self.workload.name, purchase)
        if declared is not None:
            span = Range(declared.value.low, declared.value.expected, declared.value.high)
            self.sources["price"] = declared.source
            part, copies = _part_of(purchase, share)
            words = "" if part is None else f" × {part.gpus}/{part.of} ({part})"
            charge = span.times(nodes * (1.0 if part is None else part.fraction))
            basis = f"{several}{purchase}, {span.expected:.6g} USD/h{words}{_beside(copies)}, declared: {declared.source}"
            return HourlyPrice(charge, basis, purchase, copies)
        listed = quote(self.provider, self.on, purchase)
        part, copies = (share, 1) if listed.basis is None else _part_of(listed.basis.purchase, share)
        quoted = charged(listed, part)
        if quoted.basis is None:
            return str(quoted.reason)
        factor, hourly = self.range("price", "the price is taken as it holds") or Range.fixed(1.0), quoted.basis.usd_per_hour * nodes
        return HourlyPrice(factor.times(hourly), f"{several}{quoted.basis}{_beside(copies)}", quoted.basis.purchase, copies)

    def range(self, figure: Literal["price", "utilisation", "failure_rate"], taken: str) -> Range | None:
        """A declared range; None if it is not declared, and then `taken` says how the cost is computed without it."""
        assumption = self._assumed(figure)
        if assumption is None:
            self.undeclared(figure, taken)
            return None
        self.sources[figure] = assumption.source
        value: Utilisation = assumption.value  # all three have the same fields
        return Range(value.low, value.expected, value.high)

    def volume(self, outcome: Outcome) -> float | None:
        """The declared monthly volume in outcomes, by the measured rates where it is declared in something else."""
        assumption = self._assumed("volume")
        if assumption is None:
            example = "requests: 50000000" if self.workload.kind == "inference" else "trained_tokens: 100000000000"
            self.undeclared("volume", "the cost is without what is paid by the month", f"volume: {{{example}}}")
            return None
        what, amount = assumption.value.declared
        declared_in, mine = self.measured(*RATES[what]), self.measured(*outcome.numbers[-1])
        if declared_in is None or mine is None or declared_in.expected <= 0:
            reason = f"the volume is declared in {what.replace('_', ' ')}, and {RATES[what][0]} of {self.workload.name} was not measured"
            self.unknown.append(UnknownInput("volume", reason, f"declare it in what is measured, such as {outcome.what}"))
            return None
        self.sources["volume"] = assumption.source
        return float(amount * mine.expected / declared_in.expected)

    def monthly_data(self, item: Literal["egress", "storage"]) -> Range | None:
        """The cost of egress or storage a month, USD: the declared amount at the provider's rate of the day."""
        names = ("storage", "checkpoints") if item == "storage" else (item,)
        found = [(each.source, self._bytes(each.value)) for name in names if (each := self._assumed(name)) is not None]
        stored = [(source, span) for source, span in found if span is not None]
        if not stored:
            if not found:
                self.undeclared(item, "the cost is without it")
            return None
        rate = next((r for r in self.provider.rates if r.item == item and r.holds(self.on)), None)
        if rate is None:
            price = "0.09 USD/GB" if item == "egress" else "0.08 USD/GB-month"
            reason = f"no {item} rate of {self.provider.name} holds on {self.on.isoformat()}: the cost is without it"
            self.unknown.append(
                UnknownInput(item, reason, f"declare it in the provider's rates, such as {{item: {item}, price: {price}, …}}")
            )
            return None
        self.sources[item] = (
            f"{'; '.join(source for source, _ in stored)}; {rate.price.amount:.10g} {rate.price.currency}/{rate.price.per}: {rate.source}"
        )
        unit = BYTES[rate.price.per.removesuffix("-month")]
        spans = [span for _, span in stored]
        amount = Range(sum(s.low for s in spans), sum(s.expected for s in spans), sum(s.high for s in spans))
        return amount.times(rate.price.amount * rate.usd_per_unit / unit)

    def _assumed(self, figure: str) -> SourcedFigure[Any] | None:
        return self.economics.assumed(figure, self.provider.name, self.workload.name)

    def _bytes(self, value: DataRange | Checkpoints) -> Range | None:
        """The declared data; checkpoints of the declared size, else of the measured one, None if it was not."""
        if isinstance(value, DataRange):
            return Range(value.low, value.expected, value.high)
        size = self.measured("checkpoint_size", "value") if value.size is None else Range.fixed(value.size)
        if size is None:
            reason = f"checkpoint_size of {self.workload.name} was not measured: the cost is without its {value.kept} checkpoints"
            self.unknown.append(UnknownInput("storage", reason, "declare it, such as checkpoints: {size: 140GB, kept: 52}"))
        return None if size is None else size.times(value.kept)

    def support(self) -> tuple[float, float]:
        """Support plans: USD a month, and the share of what the instances cost."""
        plans = [plan for plan in self.provider.support if plan.holds(self.on)]
        if plans:
            self.sources["support"] = "; ".join(plan.source for plan in plans)
        fixed = sum(plan.per_month.amount * plan.usd_per_unit for plan in plans if plan.per_month is not None)
        return fixed, sum(plan.share or 0.0 for plan in plans)

    def engineering(self) -> float | None:
        """The cost of people a month, USD: as the economics say, else the provider's declared overhead by the month."""
        assumption = self._assumed("engineering")
        if assumption is not None:
            self.sources["engineering"] = assumption.source
            return float(assumption.value)
        by_month = [o for o in self.provider.overhead if o.per == "month" and o.holds(self.on)]
        if not by_month:
            self.undeclared("engineering", "the cost is without people's time")
            return None
        self.sources["engineering"] = "; ".join(o.source for o in by_month)
        return float(sum(o.time / 3600.0 * o.price.amount * o.usd_per_unit for o in by_month))

    def scale_to_zero(self, rate: float) -> ScaleToZero | str:
        """The endpoint that keeps a worker up while requests are present; or why it is not known. `rate`: its requests a second at most."""
        residence = self.expected("request_latency", "mean", "steady")
        if residence is None or residence <= 0:
            return (
                f"{self.workload.name} on {self.provider.name}: the bill of an endpoint that scales to zero is unknown, because how long a "
                "request keeps it up was not measured (request_latency, mean, in steady)"
            )
        declared = next((r for r in self.provider.serverless if r.holds(self.on)), None)
        idle, minimum = (declared.idle, declared.minimum) if declared is not None else (0.0, 0.0)
        cold = [self.expected(metric, "value", "cold_start") for metric in ("time_to_ready", "first_inference_latency")]
        if not any(cold):
            reason = "time_to_ready was not measured: the cost is without cold starts"
            self.unknown.append(UnknownInput("cold_start", reason, "a trial that starts the server measures it"))
        return ScaleToZero(rate, residence, idle, minimum, math.fsum(filter(None, cold)))

    def always_on(self) -> int:
        """How many times the instances are paid all month long; 0 if not declared."""
        assumption = self._assumed("always_on")
        return 0 if assumption is None else int(assumption.value)

    def undeclared(self, figure: str, taken: str, example: str = "") -> None:
        """Note that a figure of the economics is not declared."""
        # The price itself is known here; how far it may move is not declared.
        words, shown = "a range of the price" if figure == "price" else figure.replace("_", " "), example or _EXAMPLES[figure]
        remedy = f"declare it for {self.provider.name} in economics.yaml, such as {shown}"
        self.unknown.append(UnknownInput(figure, f"{words} is not known: {taken}", remedy))


def _own_interval(outcome: Outcome, trial: TrialSample, rate: float) -> tuple[float | None, float | None]:
    """The interval of one trial's rate by its own observations: its row's interval, of a sustained rate the search's bracket, of training its speed's."""
    metric, statistic = (SUSTAINED, "value") if outcome.sustained else outcome.numbers[-1]
    number = trial.number(metric, statistic, outcome.phase)
    if number is None or not number.value or number.ci_low is None or number.ci_high is None:
        return None, None
    # Ratios first: an end that equals the value must give the rate itself, to the last bit.
    return rate * (number.ci_low / number.value), rate * (number.ci_high / number.value)


@dataclass(frozen=True)
class CostForecast:
    """What `amount` of `what` cost on a provider. `reason` says why there is no model, and is None exactly where there is one.

    `price`, `rate`: what the price of an hour and what it delivers rest on. `sources`: by driver, who declared it. `trials`: ids of those whose rate it is.
    """

    provider: str
    workload: str
    kind: str
    purchase: Purchase
    metric: str
    what: str
    amount: float
    model: CostModel | None = None
    price: str = ""
    rate: RateBasis | None = None
    reason: str | EndlessRun | None = None
    unknown: tuple[UnknownInput, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    trials: tuple[str, ...] = ()

    @property
    def scenarios(self) -> Scenarios | None:
        """Best, expected and worst; None without a model."""
        return None if self.model is None else scenarios(self.model, self.amount)

    @property
    def tornado(self) -> Tornado | None:
        """The drivers of the cost, sorted by effect; None without a model."""
        return None if self.model is None else tornado(self.model, self.amount)

    @property
    def fleet(self) -> FleetScenario | None:
        """The instances of a month as expected; None without a model or a volume."""
        return None if self.model is None or self.model.volume is None else self.model.fleet(self.model.volume, self.model.at({}))

    @property
    def outcome(self) -> str:
        """The amount in words, such as 1,000,000 output tokens."""
        return f"{self.amount:,.0f} {self.what}"


def fitting_outcome(case: ForecastInputs) -> Outcome:
    """The outcome that a workload is paid for: a request within its SLO, a trained token; of those the first that any usable trial measured.

    Whatever it costs: a price may be declared for one way to pay only, or in the economics alone.
    """
    wanted = [case.at_best(name) for name in leading_names(f"{case.workload.kind}_cost")]
    return next((o for o in wanted if any(o.delivered(t.value) is not None for t in case.usable)), wanted[0])


def cost_forecast(
    provider: Provider,
    workload: AnyWorkload,
    trials: Sequence[TrialSample],
    economics: Economics,
    on: date,
    purchase: Purchase = "on_demand",
) -> CostForecast:
    """The cost of what fits the workload best, at the prices that hold on the day `on`. `trials`: the attempts of one campaign; those of
    other providers and workloads are left out."""
    case = ForecastInputs(provider, workload, trials, economics, on)
    outcome = fitting_outcome(case)
    amount = outcome.shown_amount
    about = (provider.name, workload.name, workload.kind, purchase, outcome.metric, outcome.what, amount)
    priced = case.price(purchase)
    if isinstance(priced, str):
        return CostForecast(*about, reason=priced)
    delivered = case.delivered(outcome)
    if isinstance(delivered, str):
        return CostForecast(*about, reason=delivered, price=priced.basis)
    loss = loss_rate(economics, provider.name, workload, purchase)
    restarts = None if loss is None else loss.stretch(case.expected)
    if isinstance(restarts, EndlessRun):
        return CostForecast(*about, reason=restarts, price=priced.basis)
    if why := unknown_loss(economics, provider.name, workload, case.expected):
        remedy = f"node_failures: [{{provider: {provider.name}, failures: 0.0002/h, since: …, source: …}}]"
        remedy = f"declare them in economics.yaml, such as {remedy}" if economics.failures(provider.name) is None else _FAULT
        case.unknown.append(UnknownInput("interruptions", f"{why}: the cost is without interruptions", remedy))
    support, support_share = case.support()
    volume, scaled, rate = case.volume(outcome), None, replace(delivered.basis, restarts=restarts)
    if priced.purchase == "serverless":
        found = _scaled(case, outcome, volume, delivered)
        if isinstance(found, str):
            return CostForecast(*about, reason=found, price=priced.basis, rate=rate)
        scaled, rate = found, replace(delivered.basis, up=found[0])
    model = CostModel(
        price=priced.hourly,
        rate=delivered.rate.times(priced.copies / (restarts.factor if restarts else 1.0)),
        utilisation=None if scaled else case.range("utilisation", "the cost is as if every paid hour delivered"),
        failure_rate=case.range("failure_rate", "the cost is as if nothing had to be done again"),
        egress=case.monthly_data("egress"),
        storage=case.monthly_data("storage"),
        engineering=case.engineering(),
        volume=volume,
        always_on=0 if priced.purchase == "serverless" else case.always_on(),
        support=support,
        support_share=support_share,
        whole=priced.whole,
        scaled=scaled,
    )
    return CostForecast(
        *about,
        model=model,
        price=priced.basis,
        rate=rate,
        unknown=tuple(case.unknown),
        sources=tuple(case.sources.items()),
        trials=delivered.trials,
    )


def _scaled(case: ForecastInputs, outcome: Outcome, volume: float | None, delivered: DeliveredRate) -> tuple[ScaleToZero, float] | str:
    """An endpoint that scales to zero with the requests that one outcome takes; or why its bill is not known."""
    if case.workload.kind != "inference":
        return f"{case.workload.name} is training: an endpoint that scales to zero serves requests"
    requests = case.volume(case.at_best("cost_per_1k_requests"))
    if volume is None or requests is None:
        return (
            f"{case.workload.name} on {case.provider.name}: the bill of an endpoint that scales to zero depends on how often requests come; "
            "declare the volume in economics.yaml, such as volume: {requests: 50000000}"
        )
    found = case.scale_to_zero(delivered.rate.expected * requests / volume)
    return found if isinstance(found, str) else (found, requests / volume)
