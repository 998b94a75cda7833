"""The bill of one attempt of a trial, line by line: its instance's hours, and what the provider declares beside them. Pure arithmetic.

Hours are counted in steps of 1e-9 h (3.6 µs), so that the measured and the idle ones add up to those that were held, and their costs to
price × held time, with nothing lost between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.cost.bill import Bill, CostBasis, Item, Line, Money, Quantity, UnitPrice, Unknown
from plumbline.analysis.cost.token_costs import token_lines, token_rate
from plumbline.analysis.cost.unit_costs import HOUR_S
from plumbline.analysis.prices.book import InstanceShare, paid_of, quote, share_of
from plumbline.declarations import Provider
from plumbline.declarations.providers.amounts import SourcedAmount
from plumbline.declarations.providers.rates import Purchase, RateItem
from plumbline.metrics.units import exact
from plumbline.results.token_usage import TokenUsage

MONTH_H = 730.5
BYTES = {"GB": 1e9, "GiB": 2.0**30}
BASES: Mapping[Purchase, CostBasis] = {
    "on_demand": "list",
    "spot": "spot",
    "reserved": "reserved",
    "owned": "owned",
    "serverless": "serverless",
}


@dataclass(frozen=True)
class TrialUsage:
    """The usage of one attempt of a trial. Times are seconds summed over its nodes, None where nobody recorded them.

    `usable`: whether it finished a run whose numbers count; the whole of any other is `failed_launches`. `ended`: its status, of a failed
    one the failure class. `held_s`: from the moment that is billed (a node's assignment on a cluster) to the release. `measured_s`: the
    part of it in which the workload's phases ran, warm-up and cool-down left out. `retention_s`: how long its evidence is kept, None for ever.
    `checkpoint_bytes`: of one checkpoint. `egress_bytes`: evidence that left the provider. `data_bytes`: what was fetched of a script's data from elsewhere. `response_bytes`: a hosted model's answers to a client elsewhere. `share`: of what a campaign costs once, None if unknown.
    `gpus`: accelerators that it held on each node, None for all. `tokens`: what a hosted model counted.
    """

    trial_id: str
    provider: str
    day: date
    usable: bool
    ended: str
    held_s: float | None
    measured_s: float | None
    evidence_bytes: int = 0
    checkpoint_bytes: float = 0.0
    egress_bytes: int = 0
    data_bytes: float = 0.0
    response_bytes: float = 0.0
    retention_s: float | None = None
    share: float | None = None
    gpus: int | None = None
    tokens: tuple[TokenUsage, ...] = ()


def trial_bill(use: TrialUsage, provider: Provider, on: date, purchase: Purchase = "on_demand") -> Bill:
    """The bill of one attempt at the prices and rates that hold on the day `on`, in USD: what is paid (`paid_of`).

    A hosted model with token_prices is billed by what it counted. An invoice of that day goes before the list. What was used and has no
    price, rate or record is `unknown`, with the reason.
    """
    paid = paid_of(provider, use.gpus)
    machine = machine_bill(use, provider, on, purchase)
    beside = [*_extra_lines(use, provider, on, paid), *_engineering(use, provider, on, paid), *_support(use, provider, on, paid, machine)]
    return machine + _bill(beside)


def machine_bill(use: TrialUsage, provider: Provider, on: date, purchase: Purchase = "on_demand") -> Bill:
    """The lines of the machine that was held, or of the hosted model: their sums are `Bill.paid` and `Bill.share`."""
    return _bill(list(_hosted(use, provider, on) if provider.token_prices else _instance(use, provider, on, purchase)))


def _bill(lines: Sequence[Line | Unknown]) -> Bill:
    return Bill(
        tuple(each for each in lines if isinstance(each, Line)),
        tuple(each for each in lines if isinstance(each, Unknown)),
    )


def _hosted(use: TrialUsage, provider: Provider, on: date) -> Iterator[Line | Unknown]:
    """Lines for the tokens and requests that a hosted model counted."""
    item: Item = "hosted" if use.usable else "failed_launches"
    rate = token_rate(provider, on)
    if isinstance(rate, str):
        yield Unknown(item, rate)
    elif not use.tokens:
        yield Unknown(item, f"{use.trial_id} recorded no usage of {provider.name}")
    else:
        yield from token_lines(rate, use.tokens, item)


def hours(seconds: float, share: InstanceShare | None = None) -> float:
    """Seconds as hours, to 1e-9 h; of a share of the instance so much of them."""
    return round(seconds / HOUR_S * (1.0 if share is None else share.fraction), 9)


@dataclass(frozen=True)
class HourPrice:
    """The price of an instance-hour, and its source."""

    unit_price: UnitPrice
    basis: CostBasis
    source: str
    since: date


def hour_price(provider: Provider, on: date, purchase: Purchase = "on_demand") -> HourPrice | str:
    """The effective price of an invoice of that day, else the price in the book; the reason in words if there is neither."""
    invoice = next((i for i in provider.invoices if i.purchase == purchase and i.holds(on)), None)
    if invoice is not None:
        an_hour = _usd(invoice.amount.amount, invoice) / invoice.instance_hours
        paid = f"{Money(invoice.amount.amount, invoice.amount.currency)} for {invoice.instance_hours:,.10g} instance-hours"
        source = f"{_source(invoice)}: {paid}"
        return HourPrice(UnitPrice(an_hour, "USD", "instance-hour"), "invoiced", source, invoice.days[0])
    quoted = quote(provider, on, purchase)
    if quoted.basis is None:
        return str(quoted.reason)
    basis = quoted.basis
    return HourPrice(UnitPrice(basis.usd_per_hour, "USD", "instance-hour"), BASES[basis.purchase], basis.source, basis.since)


def _instance(use: TrialUsage, provider: Provider, on: date, purchase: Purchase) -> Iterator[Line | Unknown]:
    paid, share = paid_of(provider, use.gpus), share_of(provider, use.gpus)
    of_it = share.fraction if share is not None and paid is None else 1.0
    measuring: Item = "cpu" if provider.accelerator.kind == "cpu" else "gpu"
    if use.held_s is None:
        item = measuring if use.usable else "failed_launches"
        yield Unknown(item, f"the time that {use.trial_id} held {provider.name} was not recorded")
        return
    price = hour_price(provider, on, purchase)
    if isinstance(price, str):
        yield Unknown(measuring if use.usable else "failed_launches", price)
        return

    def line(item: Item, held_h: float, what: str) -> Line:
        part = what if share is None else f"{what}: {share.gpus} of {share.of} GPUs" + ("" if paid is not None else " used, all paid")
        return Line(item, Quantity(held_h, "instance-hour"), price.unit_price, price.basis, price.source, price.since, part, of_it)

    held_h = hours(use.held_s, paid)
    if not use.usable:
        yield line("failed_launches", held_h, use.ended.replace("_", " "))
        return
    if use.measured_s is None:
        yield Unknown("idle", f"when {use.trial_id} measured was not recorded: its whole time counts as {measuring}")
        yield line(measuring, held_h, provider.instance_type)
        return
    measured_h = min(hours(use.measured_s, paid), held_h)
    yield line(measuring, measured_h, provider.instance_type)
    yield line("idle", float(exact(held_h) - exact(measured_h)), "start, probes, warm-up and stop")


def _extra_lines(use: TrialUsage, provider: Provider, on: date, share: InstanceShare | None) -> Iterator[Line | Unknown]:
    """Lines with rates of their own."""
    own_cpu = provider.accelerator.kind != "cpu" and any(rate.item == "cpu" for rate in provider.rates)
    if own_cpu:
        cores = provider.launcher.cores_per_trial
        if cores is None:
            yield Unknown("cpu", f"launcher.resources.cpu of {provider.name} is not declared, so the cores of a trial are unknown")
        elif use.held_s is None:
            yield Unknown("cpu", f"the time that {use.trial_id} held {provider.name} was not recorded")
        else:
            yield _rated("cpu", cores * hours(use.held_s), provider, on, f"{cores} cores")
    if use.evidence_bytes and use.retention_s is None:
        yield Unknown("storage", "evidence.keep in upkeep.yaml sets no end, so the stored time is unknown")
    elif use.evidence_bytes and use.retention_s is not None:
        yield _rated("storage", use.evidence_bytes * hours(use.retention_s) / MONTH_H, provider, on, "evidence")
    if provider.launcher.checkpoint_volume and use.checkpoint_bytes and use.held_s is not None:
        yield _rated("storage", use.checkpoint_bytes * hours(use.held_s) / MONTH_H, provider, on, "checkpoints while it ran")
    # What leaves a hosted model is in its other prices unless it declares one for it.
    answers = use.response_bytes if any(rate.item == "egress" for rate in provider.rates) else 0.0
    for crossed, what in ((use.egress_bytes, "evidence"), (use.data_bytes, "data from elsewhere"), (answers, "responses")):
        if crossed:
            yield _rated("egress", crossed, provider, on, what)
    if use.held_s is None:
        yield Unknown("observability", f"the time that {use.trial_id} held {provider.name} was not recorded")
    else:
        yield _rated("observability", hours(use.held_s, share), provider, on, "metrics and logs")


def _rated(item: RateItem, used: float, provider: Provider, on: date, what: str) -> Line | Unknown:
    """One line by a declared rate. `used`: in core-hours, byte-months, bytes or instance-hours."""
    declared = [rate for rate in provider.rates if rate.item == item]
    rate = next((rate for rate in declared if rate.holds(on)), None)
    if rate is None:
        when = f"holds on {on.isoformat()} for" if declared else "is declared for"
        return Unknown(item, f"no {item} rate {when} {provider.name}")
    unit = rate.price.per
    per_byte = BYTES.get(unit.removesuffix("-month"))
    value = used / per_byte if per_byte is not None else used
    price = UnitPrice(_usd(rate.price.amount, rate), "USD", unit)
    return Line(item, Quantity(value, unit), price, "declared", _source(rate), rate.since, what)


def _engineering(use: TrialUsage, provider: Provider, on: date, share: InstanceShare | None) -> Iterator[Line | Unknown]:
    holding = [each for each in provider.overhead if each.holds(on)]
    if not holding:
        when = f"holds on {on.isoformat()} for" if provider.overhead else "is declared for"
        yield Unknown("engineering", f"no overhead {when} {provider.name}")
    for each in holding:
        spent_h = hours(each.time)
        if each.instance_hours is not None:
            if use.held_s is None:
                yield Unknown("engineering", f"the time that {use.trial_id} held {provider.name} was not recorded")
                continue
            value = spent_h * hours(use.held_s, share) / each.instance_hours
        elif use.share is None:
            yield Unknown("engineering", f"{each.what}: {spent_h:g} h for each campaign, and how many trials share them is not known")
            continue
        else:
            value = spent_h * use.share
        price = UnitPrice(_usd(each.price.amount, each), "USD", "hour")
        yield Line("engineering", Quantity(value, "hour"), price, "declared", _source(each), each.since, each.what)


def _support(use: TrialUsage, provider: Provider, on: date, share: InstanceShare | None, machine: Bill) -> Iterator[Line | Unknown]:
    for plan in (each for each in provider.support if each.holds(on)):
        if plan.share is not None:
            if machine.total is not None:
                billed, price = Quantity(machine.total.amount, "billed USD"), UnitPrice(plan.share, "USD", "billed USD")
                yield Line("support", billed, price, "declared", plan.source, plan.since, plan.what)
        elif use.held_s is None:
            yield Unknown("support", f"the time that {use.trial_id} held {provider.name} was not recorded")
        elif plan.per_month is not None and plan.instance_hours is not None:
            months, price = hours(use.held_s, share) / plan.instance_hours, UnitPrice(_usd(plan.per_month.amount, plan), "USD", "month")
            yield Line("support", Quantity(months, "month"), price, "declared", _source(plan), plan.since, plan.what)


def _usd(amount: float, stated: SourcedAmount) -> float:
    return float(exact(amount) * exact(stated.usd_per_unit))


def _source(stated: SourcedAmount) -> str:
    """Who says so, and at which rate it was exchanged."""
    rate = stated.rate
    return stated.source if rate is None else f"{stated.source}, at {rate.usd:g} USD/{rate.currency} of {stated.rate_on}"
