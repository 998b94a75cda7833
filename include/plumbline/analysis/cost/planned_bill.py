"""Bills of a plan's options, at written prices or at those of declared providers. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from plumbline.analysis.cost.bill import Bill, Line, MixedUnits, Money, Quantity, UnitPrice, Unknown
from plumbline.analysis.cost.trial_bill import hour_price
from plumbline.analysis.prices.book import share_of
from plumbline.declarations import Provider
from plumbline.declarations.cost_plan import CostPlan, PlanLine


@dataclass(frozen=True)
class PlannedOption:
    """One option. `dearer`: how much more than the plan's first option it costs, negative if less; None for the first and where a total
    is not known or is in another currency."""

    name: str
    bill: Bill
    dearer: Money | None


def plan_bills(plan: CostPlan, providers: Mapping[str, Provider], today: date) -> tuple[PlannedOption, ...]:
    """The bill of every option.

    MixedUnits, naming the line, if a quantity is not in its price's unit or an option mixes currencies. KeyError for a provider that
    `providers` does not name. What a provider has no price for is `unknown`.
    """
    options: list[PlannedOption] = []
    for option in plan.options:
        priced = [_line(each, f'"{option.name}", line {n} ({each.item})', providers, today) for n, each in enumerate(option.lines, 1)]
        bill = Bill(tuple(p for p in priced if isinstance(p, Line)), tuple(p for p in priced if isinstance(p, Unknown)))
        try:
            total = bill.total
        except MixedUnits as error:
            raise MixedUnits(f'"{option.name}": {error}', error.expected, error.actual) from None
        options.append(PlannedOption(option.name, bill, _difference(total, bill, options[0].bill) if options else None))
    return tuple(options)


def _difference(total: Money | None, bill: Bill, first: Bill) -> Money | None:
    if total is None or first.total is None or not (bill.complete and first.complete) or total.currency != first.total.currency:
        return None
    return total - first.total


def _line(planned: PlanLine, where: str, providers: Mapping[str, Provider], today: date) -> Line | Unknown:
    quantity = Quantity(planned.quantity.value, planned.quantity.unit)
    try:
        if planned.price is not None:
            price = UnitPrice(planned.price.amount, planned.price.currency, planned.price.per)
            return Line(planned.item, quantity, price, planned.basis, planned.source, planned.since, planned.what)
        assert planned.provider is not None
        provider = providers[planned.provider]
        quoted = hour_price(provider, planned.on or today, planned.purchase)
        if isinstance(quoted, str):
            return Unknown(planned.item, quoted)
        what, price = planned.what or f"{provider.instance_type} of {provider.name}", quoted.unit_price
        if quantity.unit.lower() == "gpu-hour" and provider.accelerator.kind != "cpu":
            price = UnitPrice(price.amount / provider.accelerator.count, price.currency, quantity.unit)
            share = share_of(provider, 1)
            what += f": {share}" if share is not None else ""
        return Line(planned.item, quantity, price, quoted.basis, quoted.source, quoted.since, what)
    except MixedUnits as error:
        raise MixedUnits(f"{where}: {error}", error.expected, error.actual) from None
