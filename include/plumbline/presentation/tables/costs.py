"""Exported tables of costs: bill lines, prices, forecasts."""

from __future__ import annotations

from collections.abc import Iterator

from plumbline.analysis.conclusions import Conclusions
from plumbline.presentation.cost_forecasts import cost_forecasts
from plumbline.presentation.tables.columns import CAMPAIGN, KIND, PLACE, SOURCE, TRIALS, UNIT, WORKLOAD, Row, Table, day, number, text


def _bills(found: Conclusions) -> Iterator[Row]:
    whose = {d.trial.trial_id: d.trial for d in found.campaign.documents}
    nothing: Row = dict.fromkeys(
        ("quantity", "quantity_unit", "unit_price", "price_unit", "cost", "currency", "basis", "source", "since", "what", "reason")
    )
    for trial_id, bill in found.bills.items():
        trial = whose[trial_id]
        own: Row = {
            "campaign": trial.campaign_id,
            "provider": trial.provider.name,
            "kind": trial.workload.kind,
            "workload": trial.workload.name,
        }
        own |= {**nothing, "trial": trial_id}
        for line in bill.lines:
            price = line.unit_price
            yield {
                **own,
                "item": line.item,
                "what": line.what,
                "quantity": line.quantity.value,
                "quantity_unit": line.quantity.unit,
                "unit_price": price.amount,
                "price_unit": f"{price.currency}/{price.per}",
                "cost": line.cost.amount,
                "currency": line.cost.currency,
                "basis": line.basis,
                "source": line.source,
                "since": line.since,
            }
        for unknown in bill.unknown:
            yield {**own, "item": unknown.item, "reason": unknown.reason}


def _prices(found: Conclusions) -> Iterator[Row]:
    for name, provider in sorted(found.campaign.providers.items()):
        for price in sorted(provider.price_list, key=lambda p: (p.purchase, p.since)):
            of = {name: getattr(price, name) for name in ("purchase", "price", "since", "until", "source")}
            yield {"provider": name, "unit": "USD/h", **of}


def _scenarios(found: Conclusions) -> Iterator[Row]:
    for o in cost_forecasts(found.campaign, found.trials):
        costs = o.scenarios
        totals = (None, None, None) if costs is None else (costs.best.total, costs.expected.total, costs.worst.total)
        yield {
            "campaign": found.campaign.campaign_id,
            **{name: getattr(o, name) for name in ("kind", "workload", "provider", "purchase", "amount")},
            "outcome": o.what,
            **dict(zip(("best", "expected", "worst"), totals, strict=True)),
            "unit": "USD",
            "price": o.price,
            "rate": o.rate,
            "without": "; ".join(m.what for m in o.unknown),
            "reason": o.reason,
            "trials": " ".join(o.trials),
        }


COST_TABLES = {
    "bills": Table(
        "every line of every trial's bill, and what is not known of it",
        (
            CAMPAIGN,
            KIND,
            WORKLOAD,
            *PLACE,
            text("trial", "trial id; all its attempts are in its bill"),
            text("item", "gpu, cpu, idle, failed_launches, storage, egress, observability or engineering"),
            text("what", "what of the item it is"),
            number("quantity", "how much was used", of="quantity_unit"),
            text("quantity_unit", "unit of the quantity"),
            number("unit_price", "what one unit costs", of="price_unit"),
            text("price_unit", "unit of the price"),
            number("cost", "quantity × unit price; empty: not known, see reason", of="currency"),
            text("currency", "the cost's currency"),
            text("basis", "list, spot, reserved, invoiced or declared"),
            SOURCE,
            day("since", "first day the price holds"),
            text("reason", "why there is no cost"),
        ),
        _bills,
    ),
    "prices": Table(
        "the prices that costs are reckoned with",
        (
            *PLACE,
            text("purchase", "on_demand, spot or reserved"),
            number("price", "price of the whole instance", of="unit"),
            UNIT,
            day("since", "first day it holds"),
            day("until", "first day it no longer holds; empty: open"),
            SOURCE,
        ),
        _prices,
    ),
    "scenarios": Table(
        "what an outcome will cost by what is declared of its use: best, expected, worst",
        (
            CAMPAIGN,
            KIND,
            WORKLOAD,
            *PLACE,
            text("purchase", "on_demand, spot or reserved"),
            text("outcome", "what is paid for"),
            number("amount", "how many of it the costs are of", unit="count"),
            number("best", "every range at its cheaper end; empty: see reason", of="unit"),
            number("expected", "as expected", of="unit"),
            number("worst", "every range at its dearer end", of="unit"),
            UNIT,
            text("price", "what the price of an hour rests on"),
            text("rate", "what the rate rests on"),
            text("without", "what nobody declared and no cost holds"),
            text("reason", "why there is no cost"),
            TRIALS,
        ),
        _scenarios,
    ),
}
