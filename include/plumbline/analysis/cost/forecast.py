"""Cost forecast of one outcome on one provider: best, expected and worst case, and the drivers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.cost.forecast_inputs import ForecastInputs, UnknownInput
from plumbline.analysis.cost.scenarios import CostModel, Scenarios, Tornado, scenarios, tornado
from plumbline.analysis.cost.unit_costs import COST_METRICS, Outcome
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase


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
    rate: str = ""
    reason: str | None = None
    unknown: tuple[UnknownInput, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    trials: tuple[str, ...] = ()

    @property
    def scenarios(self) -> Scenarios | None:
        """Best, expected and worst; None without a model."""
        return None if self.model is None else scenarios(self.model, self.amount)

    @property
    def tornado(self) -> Tornado | None:
        """What the cost hangs on; None without a model."""
        return None if self.model is None else tornado(self.model, self.amount)

    @property
    def outcome(self) -> str:
        """The amount in words, such as 1,000,000 output tokens."""
        return f"{self.amount:,.0f} {self.what}"


def fitting_outcome(case: ForecastInputs) -> Outcome:
    """The outcome that a workload is paid for: a request within its SLO, a trained token; of those the first that any usable trial measured.

    Whatever it costs: a price may be declared for one way to pay only, or in the economics alone.
    """
    wanted = [case.at_best(name) for name in COST_METRICS[case.workload.kind]]
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
    model = CostModel(
        price=priced.hourly,
        rate=delivered.rate,
        utilisation=case.range("utilisation", "the cost is as if every paid hour delivered"),
        failure_rate=case.range("failure_rate", "the cost is as if nothing had to be done again"),
        egress=case.monthly_data("egress"),
        storage=case.monthly_data("storage"),
        engineering=case.engineering(),
        volume=case.volume(outcome),
        always_on=case.always_on(),
    )
    return CostForecast(
        *about,
        model=model,
        price=priced.basis,
        rate=delivered.basis,
        unknown=tuple(case.unknown),
        sources=tuple(case.sources.items()),
        trials=delivered.trials,
    )
