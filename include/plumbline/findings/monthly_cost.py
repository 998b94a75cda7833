"""Monthly cost of a finding at the declared volumes. An unknown cost is never zero: the text names what to declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

from plumbline.analysis.cost.monthly_worth import monthly_hours, relative_cost
from plumbline.analysis.cost.unit_costs import COSTS, HOUR_S
from plumbline.analysis.prices.book import declared_price, quote
from plumbline.analysis.trial_sample import SUSTAINED
from plumbline.declarations import Alerts, Provider
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.rates import Purchase
from plumbline.findings.types import about_price, about_speed, type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.findings.types.price_change import PriceFinding
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import (
    format_amount,
    format_count,
    format_money,
    format_money_change,
    format_monthly,
    format_significant,
    join_words,
)
from plumbline.metrics.units import Amount, AmountText
from plumbline.results.finding import Finding, Member, PriceMove
from plumbline.results.sample import Series

_RATES = (
    SUSTAINED,
    *dict.fromkeys(metric for o in COSTS if o.kind == "training" for metric, _ in o.numbers),
    "output_token_throughput",
    "request_throughput",
    "goodput",
    "tokens_per_second_per_device",
    "samples_per_second_per_device",
    "model_flops",
)
"""Rates, in order of preference: those that unit costs rest on go before throughput at an offered rate. Training without any uses the step time."""
_PACE = (*_RATES, "step_time", "time_to_train", "command_time")


@dataclass(frozen=True)
class MonthlyCost:
    """`usd` more a month (negative: less), `low` and `high` by the finding's interval where it has one; None if unknown.

    `text`: one sentence, empty for findings without a cost, and where the finding of its cause says it; `basis` says it there too.
    `parts`: USD by what is paid, which add up to `usd`: a workload on a provider, or a provider's price. Findings of one cause have the
    same parts. `until`: the day on which a declared price that it rests on ends. `free`: whether the finding is known to cost nothing, so
    that no price is missing. `credit`: of a broken promise, USD that can be claimed once; no part of any sum. `claim`: of another finding, what trials prove broken
    and can be claimed with it, in words.
    """

    usd: Amount | None
    text: AmountText
    low: Amount | None = None
    high: Amount | None = None
    parts: tuple[tuple[str, Amount], ...] = ()
    until: date | None = None
    free: bool = False
    basis: AmountText = ""
    credit: Amount | None = None
    claim: AmountText = ""


def cost_on_providers(costs: Sequence[MonthlyCost]) -> MonthlyCost:
    """The sum of one finding's costs, one a provider; of those that are known."""
    known = [cost for cost in costs if cost.usd is not None]
    if not known:
        return costs[0] if costs else MonthlyCost(None, "")
    usd = sum(cost.usd or 0.0 for cost in known)
    unknown = f"; of {len(costs) - len(known)} more providers unknown" if len(known) < len(costs) else ""
    verb = "costs" if usd >= 0 else "saves"
    text = f"{verb} {format_amount(abs(usd))} USD a month on {format_count(len(known), 'provider')} at the declared volumes{unknown}"
    until = min((cost.until for cost in known if cost.until is not None), default=None)
    return MonthlyCost(usd, text, parts=tuple(part for cost in known for part in cost.parts), until=until, basis=text)


@dataclass(frozen=True)
class _TimeChange:
    """Instance time more a month, as fractions of the declared time: the middle and both ends of the interval."""

    middle: float
    low: Amount | None = None
    high: Amount | None = None


Accepted = Callable[[Purchase], float | None]
"""The last accepted price of an instance-hour in USD, or None."""


def monthly_cost(
    finding: Finding,
    alerts: Alerts,
    provider: Provider | None,
    on: date,
    accepted: Accepted | None = None,
    decided: Collection[str] = (),
) -> MonthlyCost:
    """Monthly cost at the declared volumes and the prices of the day `on`.

    A performance finding's cost follows from the rate that sets the unit cost, a price finding's from its effect. `provider` is None if it
    is no longer declared. An `accepted` price takes precedence over the declared one. `decided`: workloads that run on the provider and
    that teams decide by, which share a volume without a workload as in a decision's savings.
    """
    rests_on = type_of(finding).costs
    if FirstChoice.has(finding):
        # The price that moved the choice. Without a text it belongs to no sum: one price may move several choices.
        moved = _price_change_cost(finding, alerts, provider, on, accepted) if about_price(finding) else MonthlyCost(None, "")
        return replace(moved, text="")
    if rests_on == "price":
        return _price_change_cost(finding, alerts, provider, on, accepted)
    if rests_on != "pace" or not about_speed(finding):
        return MonthlyCost(None, "")
    if not finding.campaigns:
        return MonthlyCost(None, "cost unknown: no workload measured since the change")
    paces = _paces(finding)
    own = sorted({_metric(m) for m in finding.members} - METRICS.keys())
    if not paces and own:
        return MonthlyCost(None, f"cost unknown: whether {join_words(own)} sets how long the work takes is not declared")
    if not paces:
        return MonthlyCost(None, "no direct cost: throughput did not change", free=True)
    among = {*paces, *decided}
    changes = [
        (f"{finding.provider} {workload}", volume, hours, pace)
        for workload, pace in paces.items()
        for volume, hours in monthly_hours(finding.provider, workload, among, alerts.volumes)
    ]
    return _sum(finding, changes, provider, on, accepted)


def _paces(finding: Finding) -> dict[str, _TimeChange]:
    """Workload → how much longer the same work takes."""
    paces: dict[str, _TimeChange] = {}
    for key in dict.fromkeys(m.series_key or finding.series_key for m in finding.members):
        members = [m for m in finding.members if (m.series_key or finding.series_key) == key and m.effect is not None]
        lead = min((m for m in members if _metric(m) in _PACE), key=lambda m: _PACE.index(_metric(m)), default=None)
        if lead is not None and key:
            paces[Series.parse(key).workload] = _time_change(lead)
    return paces


def _metric(member: Member) -> str:
    return member.name.split(" ")[0]


def _time_change(member: Member) -> _TimeChange:
    values = [member.effect, member.ci_low, member.ci_high]
    if _metric(member) in _RATES:
        values = [None if v is None or v <= -1 else relative_cost(1 + v, 1.0) for v in values]
    middle, *ends = values
    if middle is None or None in ends:
        return _TimeChange(middle or 0.0)
    return _TimeChange(middle, min(e for e in ends if e is not None), max(e for e in ends if e is not None))


def _price_change_cost(finding: Finding, alerts: Alerts, provider: Provider | None, on: date, accepted: Accepted | None) -> MonthlyCost:
    if finding.effect is None:
        return MonthlyCost(None, "")
    purchase = PriceFinding.purchase_of(finding)
    if finding.prices:
        return _price_moves_cost(finding.prices, [v for v in alerts.volumes if v.purchase == purchase])
    # Of an older version.
    volumes = [v for v in alerts.volumes if fnmatchcase(finding.provider, v.provider) and v.purchase == purchase]
    paid = _price_part(finding.provider, purchase)
    changes = [(paid, v, v.time_per_month / HOUR_S, _TimeChange(finding.effect or 0.0)) for v in volumes]
    return _sum(finding, changes, provider, on, accepted)


def _price_moves_cost(moves: Sequence[PriceMove], volumes: Sequence[RentedVolume]) -> MonthlyCost:
    """The sum over the providers whose price moved and whose volume is declared."""
    changes = [(move, v.time_per_month / HOUR_S) for move in moves for v in volumes if fnmatchcase(move.provider, v.provider)]
    if not changes:
        return _unknown_volume(moves[0].provider)
    usd, hours = sum((move.after - move.before) * h for move, h in changes), sum(h for _, h in changes)
    names = {move.provider for move, _ in changes}
    prices = format_money_change(changes[0][0].before, changes[0][0].after, "USD/h") if len(names) == 1 else f"{len(names)} providers"
    parts = _added((_price_part(move.provider, volumes[0].purchase), (move.after - move.before) * h) for move, h in changes)
    text = _describe(usd, None, None, hours, prices)
    return MonthlyCost(usd, text, parts=parts, basis=text)


def _price_part(provider: str, purchase: Purchase) -> str:
    return f"{provider} price {purchase}"


def _added(parts: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """One amount for each name."""
    sums: dict[str, float] = {}
    for name, usd in parts:
        sums[name] = sums.get(name, 0.0) + usd
    return tuple(sums.items())


def _unknown_volume(provider: str) -> MonthlyCost:
    return MonthlyCost(
        None,
        f"cost unknown: declare the monthly volume of {provider} (`volumes` in alerts.yaml; time_per_month: 730h is one instance all month)",
    )


def _sum(
    finding: Finding,
    changes: Sequence[tuple[str, RentedVolume, float, _TimeChange]],
    provider: Provider | None,
    on: date,
    accepted: Accepted | None,
) -> MonthlyCost:
    """The changes of instance time at prices; each with what is paid, its volume and the instance-hours a month that it concerns."""
    if not changes:
        return _unknown_volume(finding.provider)
    if provider is None:
        return MonthlyCost(None, f"cost unknown: {finding.provider} is no longer declared")
    hourly: dict[Purchase, float] = {}
    ends_on: list[date] = []
    for purchase in sorted({volume.purchase for _, volume, *_ in changes}):
        price, listed_price = accepted(purchase) if accepted else None, declared_price(provider, purchase, None, on)
        if listed_price is not None and listed_price.until is not None and price in (None, float(listed_price.price)):
            ends_on.append(listed_price.until)
        if price is None:
            listed = quote(provider, on, purchase)
            if listed.basis is None:
                return MonthlyCost(None, f"cost unknown: {listed.reason}")
            price = listed.basis.usd_per_hour
        hourly[purchase] = price
    worth = [hours * hourly[volume.purchase] for _, volume, hours, _ in changes]
    usd = sum(w * more.middle for w, (*_, more) in zip(worth, changes, strict=True))
    parts = _added((paid, w * more.middle) for w, (paid, *_, more) in zip(worth, changes, strict=True))
    ends = [(more.low, more.high) for *_, more in changes]
    low = high = None
    if all(lo is not None for lo, _ in ends):
        low, high = (sum(w * (end[i] or 0.0) for w, end in zip(worth, ends, strict=True)) for i in (0, 1))
    prices = ", ".join(f"{purchase} {format_money(price, 'USD/h')}" for purchase, price in sorted(hourly.items()))
    text = _describe(usd, low, high, sum(hours for *_, hours, _ in changes), prices)
    return MonthlyCost(usd, text, low, high, parts, min(ends_on, default=None), basis=text)


def _describe(usd: float, low: float | None, high: float | None, hours: float, prices: str) -> str:
    sign = 1 if usd >= 0 else -1
    between = ""
    if low is not None and high is not None:
        first, last = sorted((sign * low, sign * high))
        between = f" ({format_significant(first)} … {format_significant(last)})"
    verb = "costs " if usd >= 0 else ""
    return f"{verb}{format_monthly(usd)}{between} at the declared volume: {hours:,.10g} instance-hours, {prices}"
