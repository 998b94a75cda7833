"""Published cost cases, to the cent. Each test's text is the arithmetic by hand; the product computes the other side."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from tests.unit.analysis.cost.test_forecast import CHAT, DAY, GPT, SERVED, SOURCE, economics, trials
from tests.unit.analysis.cost.test_forecast import provider as rented

from plumbline.analysis.cost.bill import Bill, Money
from plumbline.analysis.cost.forecast import ForecastInputs, cost_forecast
from plumbline.analysis.cost.hosted_forecast import SelfHosted, even_utilisation, even_volume
from plumbline.analysis.cost.interruptions import InterruptedRun
from plumbline.analysis.cost.payment_options import PaymentOption, cheapest_spans, twelve_months
from plumbline.analysis.cost.planned_bill import plan_bills
from plumbline.analysis.cost.scenarios import CostModel, Range, scenarios
from plumbline.analysis.cost.spot_forecast import spot_cost
from plumbline.declarations import Provider, load
from plumbline.declarations.cost_plan import CostPlan, PlanLine, PlanOption
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.loader import load_file
from plumbline.words.costs import fleet_text

PLANS = REPOSITORY / "include" / "config" / "plans"


def bills(name: str) -> list[Bill]:
    return [option.bill for option in plan_bills(load_file(PLANS / f"{name}.yaml", CostPlan), load().providers, DAY)]


def planned(*lines: str, providers: dict[str, Provider] | None = None) -> list[str]:
    """The cents of each line, and of their sum."""
    plan = CostPlan(name="case", options=(PlanOption(name="case", lines=tuple(PlanLine.written(line) for line in lines)),))
    bill = plan_bills(plan, providers or {}, DAY)[0].bill
    return [str(line.cost.cents) for line in bill.lines] + [str(cents(bill))]


def cents(bill: Bill) -> object:
    assert bill.total is not None
    return bill.total.cents


def usd(amount: float) -> str:
    return str(Money(amount).cents)


def test_fifty_million_requests_a_month() -> None:
    """Serverless: 50,000,000 · 0.0005 = 25,000.00. Two A100: 6,000 + 800 = 6,800.00; with 15,000 of engineering 21,800.00.

    Difference: 25,000 − 6,800 = 18,200.00 without the people, 25,000 − 21,800 = 3,200.00 with them.
    """
    hosted, machines, people = bills("example-chat-50m-requests")
    assert [str(cents(each)) for each in (hosted, machines, people)] == ["25000.00", "6800.00", "21800.00"]
    assert planned("gpu (two A100): 1 month at 6000 USD/month", "egress (network and storage): 1 month at 800 USD/month") == [
        "6000.00",
        "800.00",
        "6800.00",
    ]
    assert hosted.total and machines.total and people.total
    assert [str((hosted.total - each.total).cents) for each in (machines, people) if each.total] == ["18200.00", "3200.00"]


def test_the_two_a100_are_bought_by_the_month() -> None:
    """6,800 USD a month whatever the load, if they serve 50 million requests when they are full, and 15,000 USD of people: 21,800 USD.

    Above 50 million two pairs cost 2 · 6,800 + 15,000 = 28,600, more than serverless up to 28,600 / 0.0005 = 57,200,000 requests; three cost
    35,400, less than the 50,000 of 100 million: the pairs are cheaper from 57,200,000 requests on. At 50 million the 25,000 USD pay one pair and
    the people, not two, so every request must fit one pair: 100 % utilisation. At 60 million: 28,600.00 USD, less than 30,000.00.
    """
    price, rate = 6_800 / 730.5, 50_000_000 / (730.5 * 3600)
    pair = SelfHosted(price=price, rate=rate, fixed=15_000.0, whole=True)
    assert usd(pair.monthly(50_000_000, 1.0)) == usd(pair.monthly(1.0, 1.0)) == "21800.00"
    assert round(even_volume(pair, 0.0005, 1.0).value or 0) == 57_200_000
    assert round(even_utilisation(pair, 0.0005, 50_000_000).value or 0, 9) == 1.0
    assert usd(pair.monthly(60_000_000, 1.0)) == "28600.00"
    assert fleet_text(pair.fleet(60_000_000, 1.0)) == "1.20 instances needed, 2 bought, 0.8 slack"


def test_where_the_two_a100_are_cheaper_and_over_twelve_months() -> None:
    """Capacity 50 million: hosted costs 25,000 · u, the pair with its people 21,800: hosted is cheaper to u = 0.872, 43.6 of 50 million.

    Twelve months from 40 million, 5 % more each: Σ 40,000,000 · 1.05^n, n = 0 … 11, = 40,000,000 · (1.05^12 − 1) / 0.05 = 636,685,061.42
    requests, at 0.0005 USD 318,342.53 USD. The pair suffices while 40 · 1.05^n ≤ 50: 1.05^4 = 1.2155, 1.05^5 = 1.2763 > 1.25, so five months
    (n = 0 … 4) cost 21,800 and seven 28,600 (40 · 1.05^11 = 68.4 ≤ 100): 5 · 21,800 + 7 · 28,600 = 309,200.00 USD.
    """
    pair = SelfHosted(price=6_800 / 730.5, rate=50_000_000 / (730.5 * 3600), fixed=15_000.0, whole=True)
    options = [PaymentOption("hosted", 0.0005, "a price list"), PaymentOption("own", pair, "an invoice")]
    assert cheapest_spans(options, 50_000_000) == (("hosted", 0.0, 0.872), ("own", 0.872, 1.0))
    months = twelve_months(options, 40_000_000, 0.05, 1.0)
    assert [usd(sum(month.costs[i] for month in months)) for i in (0, 1)] == ["318342.53", "309200.00"]
    assert [month.fleets[1].bought for month in months if month.fleets[1]] == [1] * 5 + [2] * 7


def test_five_hundred_hours_of_p5() -> None:
    """98.32 · 500 = 49,160.00; after the cut 55.04 · 500 = 27,520.00."""
    assert [str(cents(bill)) for bill in bills("example-training-500h")] == ["49160.00", "27520.00"]
    assert planned("gpu: 500 instance-hours at 98.32 USD/instance-hour") == ["49160.00", "49160.00"]


def test_the_same_run_on_spot_with_lost_work() -> None:
    """500 h of work, a checkpoint each hour that costs no time, 12 minutes until work continues, 0.05 interruptions an hour.

    An hour of work takes e^(0.05 · 0.2) · (e^(0.05 · 1) − 1) / 0.05 = 1.010050167 · 0.051271096 / 0.05 = 1.0357275894 h; 500 of them
    517.8637947 h. On demand 49,160.00. At 60 % off, 98.32 · 0.4 = 39.328 USD/h: 20,366.55. At 70 % off, 29.496 USD/h: 15,274.91.
    """
    run = InterruptedRun(work_s=500 * 3600.0, restart_s=720.0, every_s=3600.0, checkpoint_s=0.0)
    costs = [spot_cost(run, 98.32, spot, 0.05) for spot in (39.328, 29.496)]
    assert [usd(each.on_demand) for each in costs] == ["49160.00", "49160.00"]
    assert [usd(each.spot) for each in costs] == ["20366.55", "15274.91"]


def test_the_checkpoints_of_weekly_fine_tunings() -> None:
    """One of 140 GB a week, a year of them kept: 52 · 140 = 7,280 GB-month; at 0.023 USD 167.44 USD a month, twelve months 2,009.28."""
    rates = [{"item": "storage", "price": "0.023 USD/GB-month", "since": "2026-01-01", **SOURCE}]
    said = economics({"checkpoints": {"size": "140GB", "kept": 52}})
    stored = ForecastInputs(rented(rates=rates), GPT, trials(GPT, {}), said, DAY).monthly_data("storage")
    assert stored is not None and usd(stored.expected) == "167.44"
    measured = trials(GPT, {"checkpoint_size value steady": 140e9})
    stored = ForecastInputs(rented(rates=rates), GPT, measured, economics({"checkpoints": {"kept": 52}}), DAY).monthly_data("storage")
    assert stored is not None and usd(stored.expected) == "167.44"
    assert planned("storage (checkpoints): 87360 GB-months at 0.023 USD/GB-month")[-1] == "2009.28"


def test_without_a_size_unmeasured_checkpoints_are_unknown() -> None:
    case = ForecastInputs(rented(), GPT, trials(GPT, {}), economics({"checkpoints": {"kept": 52}}), DAY)
    assert case.monthly_data("storage") is None and "checkpoint_size" in case.unknown[0].reason


def test_hidden_costs_of_idle_time_and_egress() -> None:
    """10 USD/h at one request a second, a month of them (2,629,800): 730.5 h, 7,305.00 USD. That is the price list's figure.

    At 93.75 % utilisation 7,305 / 0.9375 = 7,792.00, with 974.00 of egress 8,766.00 = 7,305 · 1.2. At 80 % utilisation 9,131.25, with
    1,095.75 of egress 10,227.00 = 7,305 · 1.4.
    """
    model = CostModel(
        price=Range.fixed(10.0),
        rate=Range.fixed(1.0),
        utilisation=Range(0.8, 0.9, 0.9375),
        egress=Range(974.0, 1000.0, 1095.75),
        volume=2_629_800.0,
    )
    points = scenarios(model, 2_629_800.0)
    assert [usd(points.best.total), usd(points.worst.total), usd(points.best.busy)] == ["8766.00", "10227.00", "7305.00"]
    assert (points.best.egress, points.worst.egress) == (974.0, 1095.75)


POWER = {"instances": 125, "years": 4.0, "power_kw": 1275.0, "pue": 1.3, "energy": "0.10 USD/kWh", "since": "2026-01-01", **SOURCE}


def owned(**more: Any) -> Provider:
    data = json.loads(rented().model_dump_json())
    return Provider.model_validate_json(json.dumps(data | {"prices": [], "owned": [{**POWER, **more}]}))


def test_the_power_of_a_thousand_gpus() -> None:
    """125 instances of eight GPUs, 10.2 kW each: 1,275 kW, with PUE 1.3 1,657.5 kW, at 0.10 USD/kWh 165.75 USD an hour, 1.326 an instance-hour.

    A year, 8,766 · 125 = 1,095,750 instance-hours: 1,452,964.50 USD. A month, 91,312.5 instance-hours: 121,080.375, rounded 121,080.38 USD.
    """
    cluster = owned(capital="0 USD")
    assert cluster.price_list[0].price == 1.326
    for hours, expected in (("1095750", "1452964.50"), ("91312.5", "121080.38")):
        line = PlanLine(item="gpu", quantity=f"{hours} instance-hours", provider=cluster.name)  # type: ignore[arg-type]
        plan = CostPlan(name="power", options=(PlanOption(name="a", lines=(line,)),))
        assert str(cents(plan_bills(plan, {cluster.name: cluster}, DAY)[0].bill)) == expected


def test_an_instance_of_one_s_own_by_the_hour() -> None:
    """Capital 37,500,000 EUR less 2,500,000 after 4 years (35,064 h) for 125 instances, 1.10 USD/EUR; power in EUR as above; space and people
    50,000 + 91,312.50 EUR a month.

    35,000,000 / 35,064 = 998.17476… EUR/h; power 165.75; (50,000 + 91,312.5) / 730.5 = 193.44627…; together 1,357.37103… EUR/h; / 125 · 1.1
    = 11.944865 USD/h. 1,000 hours of one: 11,944.87 USD. It is the price wherever a price on demand counts, as none is declared.
    """
    euro = {"rate": "1.10 USD/EUR", "rate_on": "2026-01-02", "energy": "0.10 EUR/kWh"}
    machine = owned(capital="37500000 EUR", residual="2500000 EUR", space="50000 EUR/month", people="91312.5 EUR/month", **euro)
    line = PlanLine(item="gpu", quantity="1000 instance-hours", provider=machine.name)  # type: ignore[arg-type]
    plan = CostPlan(name="own", options=(PlanOption(name="a", lines=(line,)),))
    bill = plan_bills(plan, {machine.name: machine}, date(2026, 11, 20))[0].bill
    assert str(cents(bill)) == "11944.87" and bill.lines[0].basis == "owned"


def test_a_service_on_one_s_own_instances_pays_whole_months() -> None:
    """10 requests a second on an instance of 1.326 USD/h (power alone); 31,557,600 requests a month are 1.2 instances, two are paid:
    2 · 730.5 · 1.326 = 1,937.286, rounded 1,937.29 USD."""
    place = owned(capital="0 USD")
    found = cost_forecast(place, CHAT, trials(CHAT, SERVED), economics({"volume": {"requests": 31_557_600}}), DAY, "owned")
    assert found.fleet is not None and fleet_text(found.fleet) == "1.20 instances needed, 2 bought, 0.8 slack"
    assert usd(scenarios(found.model, 31_557_600.0).expected.total) == "1937.29"
