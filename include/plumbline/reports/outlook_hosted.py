"""A model of one's own against the declared prices of hosted ones: at which utilisation and at which monthly volume both cost the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.declarations import AnyWorkload, InferenceWorkload, Provider
from plumbline.declarations.economics import Economics, Hosted
from plumbline.declarations.purchases import Purchase
from plumbline.prices.break_even import Even, SelfHosted, even_utilisation, even_volume
from plumbline.prices.scenarios import Range
from plumbline.reports.outlook_case import Case, Missing
from plumbline.scorecards import TrialNumbers


@dataclass(frozen=True)
class BreakEven:
    """One's own against one hosted model, at the expected utilisation. Costs in USD a month at the declared volume, None without one.

    `per_request`: USD for a request there; `request`: how that is reckoned. `utilisation`: from which on one's own is cheaper at that
    volume, None without one. `reason` says why nothing can be told, and is None exactly where `volume` is set.
    """

    hosted: Hosted
    per_request: float | None = None
    request: str = ""
    volume: Even | None = None
    utilisation: Even | None = None
    hosted_monthly: float | None = None
    own_monthly: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class HostedOutlook:
    """`own`: what one's own costs, None where `reason` says why. `expected`: the utilisation that is reckoned with, 1 where none is declared."""

    provider: str
    workload: str
    purchase: Purchase
    own: SelfHosted | None = None
    price: str = ""
    rate: str = ""
    utilisation: Range | None = None
    expected: float = 1.0
    volume: float | None = None
    against: tuple[BreakEven, ...] = ()
    reason: str | None = None
    unknown: tuple[Missing, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    trials: tuple[str, ...] = ()


def hosted_outlook(
    provider: Provider,
    workload: AnyWorkload,
    trials: Sequence[TrialNumbers],
    economics: Economics,
    on: date,
    purchase: Purchase = "on_demand",
) -> HostedOutlook:
    """One's own model at the prices of the day `on` against each hosted one that the economics name for the workload."""
    case = Case(provider, workload, trials, economics, on)
    told = (provider.name, workload.name, purchase)
    if not isinstance(workload, InferenceWorkload):
        return HostedOutlook(*told, reason=f"{workload.name} is training: there is no price by the token or request to hold it against")
    hosted = economics.hosted_for(workload.name)
    if not hosted:
        why = (
            f"no hosted model is declared for {workload.name}; declare one in economics.yaml, such as hosted: [{{name: …, "
            f"workloads: [{workload.name}], input: 0.20 USD/1M tokens, output: 0.20 USD/1M tokens, since: …, source: …}}]"
        )
        return HostedOutlook(*told, reason=why)
    priced = case.price(purchase)
    if isinstance(priced, str):
        return HostedOutlook(*told, reason=priced)
    # Who hosts bills every request, in time or not: one's own are counted the same way.
    outcome = case.at_best("cost_per_1k_requests")
    delivered = case.delivered(outcome)
    if isinstance(delivered, str):
        return HostedOutlook(*told, reason=delivered)
    utilisation = case.range("utilisation", "the break-even volume is as if every paid hour delivered")
    failures = case.range("failure_rate", "the cost is as if nothing had to be done again")
    monthly = [case.monthly_data("egress"), case.monthly_data("storage")]
    people = case.engineering()
    own = SelfHosted(
        price=priced.hourly.expected,
        rate=delivered.rate.expected,
        failure_rate=0.0 if failures is None else failures.expected,
        fixed=sum(part.expected for part in monthly if part is not None) + (people or 0.0),
        always_on=case.always_on(),
    )
    volume = case.volume(outcome)
    expected = 1.0 if utilisation is None else utilisation.expected
    return HostedOutlook(
        *told,
        own=own,
        price=priced.basis,
        rate=delivered.basis,
        utilisation=utilisation,
        expected=expected,
        volume=volume,
        against=tuple(_against(case, workload, own, each, expected, volume) for each in hosted),
        unknown=tuple(m for m in case.unknown if m.what != "price"),  # only the middle of its range counts here
        sources=tuple(case.sources.items()),
        trials=delivered.trials,
    )


def _against(
    case: Case, workload: InferenceWorkload, own: SelfHosted, hosted: Hosted, utilisation: float, volume: float | None
) -> BreakEven:
    price = _per_request(case, workload, hosted)
    if isinstance(price, str):
        return BreakEven(hosted, reason=price)
    each, words = price
    return BreakEven(
        hosted,
        per_request=each,
        request=words,
        volume=even_volume(own, each, utilisation),
        utilisation=None if volume is None else even_utilisation(own, each, volume),
        hosted_monthly=None if volume is None else volume * each,
        own_monthly=None if volume is None else own.monthly(volume, utilisation),
    )


def _per_request(case: Case, workload: InferenceWorkload, hosted: Hosted) -> tuple[float, str] | str:
    """USD for one request of the workload, and how it is reckoned; or why it cannot be."""
    if hosted.request is not None:
        return hosted.request, f"{hosted.request * 1000:.10g} USD for 1,000 requests"
    assert hosted.input is not None and hosted.output is not None
    requests, written = case.measured("request_throughput", "value"), case.measured("output_token_throughput", "value")
    if requests is None or written is None or requests.expected <= 0:
        return f"how many tokens {workload.name} gets for a request was not measured, and {hosted.name} bills by tokens"
    asked, got = prompt_tokens(workload), written.expected / requests.expected
    return (
        asked * hosted.input + got * hosted.output,
        f"{asked:,.4g} input tokens at {hosted.input * 1e6:.10g} USD and {got:,.4g} output tokens at {hosted.output * 1e6:.10g} USD, each for 1M",
    )


def prompt_tokens(workload: InferenceWorkload) -> float:
    """Tokens of the mean prompt as it is declared: with retrieved documents, and in a conversation with what was said before."""
    from plumbline.launch.simulated.inference import mean_tokens  # the whole simulation comes with it

    asked = workload.requests
    prefix = float(asked.shared_prefix.tokens) if asked.shared_prefix else 0.0
    own, turns = mean_tokens(asked.input_tokens) - prefix, asked.turns.count if asked.turns else 1
    said_before = (turns - 1) / 2 * (own + mean_tokens(asked.output_tokens))
    return prefix + own + said_before + workload.added_tokens
