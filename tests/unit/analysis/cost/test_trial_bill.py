"""What one attempt cost, against figures that were computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import Golden

from plumbline.analysis.cost.bill import Bill, Money, exact
from plumbline.analysis.cost.trial_bill import TrialUsage, hours, trial_bill
from plumbline.analysis.prices.book import quote
from plumbline.declarations import Provider

ON = date(2026, 11, 15)
LIST = {"purchase": "on_demand", "price": "98.32 USD/h", "since": "2026-01-01", "source": "list price"}
USE = TrialUsage(
    trial_id="t1",
    provider="p",
    day=ON,
    usable=True,
    ended="valid",
    held_s=7200.0,
    measured_s=5400.0,
    evidence_bytes=2_000_000_000,
    checkpoint_bytes=16e9,
    egress_bytes=2_000_000_000,
    retention_s=30.4375 * 86400,
    share=0.5,
)


def rate(item: str, price: str, **changed: Any) -> dict[str, Any]:
    return {"item": item, "price": price, "since": "2026-01-01", "source": f"{item} page", **changed}


RATES = [
    rate("cpu", "0.04 USD/core-hour"),
    rate("storage", "0.08 USD/GB-month"),
    rate("egress", "0.09 USD/GB"),
    rate("observability", "0.02 USD/instance-hour"),
]
WORK = {"what": "image updates", "time": "2h", "per": "campaign", "price": "120 USD/h", "since": "2026-01-01", "source": "an estimate"}


SIMULATED = {"kind": "simulated", "seed": 1}
CLUSTER = {
    "kind": "kubernetes",
    "connection": "k8s",
    "images": {"training": "localhost/x:1"},
    "resources": {"cpu": 176, "memory": "1800GiB"},
    "results_url": "s3://b/p",
}


def provider(**changed: Any) -> Provider:
    declared = {
        "name": "p",
        "cloud": "c",
        "region": "r",
        "instance_type": "p5.48xlarge",
        "accelerator": {"kind": "nvidia", "count": 8},
        "launcher": CLUSTER,
        "prices": [LIST],
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def sums(bill: Bill) -> dict[str, str]:
    return {item: str(amount) for item, amount in bill.by_item().items()}


def test_every_line_by_hand() -> None:
    # 1.5 h + 0.5 h at 98.32; 176 cores × 2 h × 0.04; 2 GB for a month at 0.08; 2 GB at 0.09; 2 h at 0.02; half of 2 h at 120.
    bill = trial_bill(USE, provider(rates=RATES, overhead=[WORK]), ON)
    assert sums(bill) == {
        "gpu": "147.48 USD",
        "cpu": "14.08 USD",
        "idle": "49.16 USD",
        "storage": "0.16 USD",
        "egress": "0.18 USD",
        "observability": "0.04 USD",
        "engineering": "120.00 USD",
    }
    assert str(bill.total) == "331.10 USD" and bill.complete
    first = bill.lines[0]
    assert (first.item, first.basis, first.source, first.since, str(first.quantity)) == (
        "gpu",
        "list",
        "list price",
        date(2026, 1, 1),
        "1.5 instance-hour",
    )
    assert {line.basis for line in bill.lines[2:]} == {"declared"}


def test_responses_are_billed_where_the_provider_declares_egress() -> None:
    use = replace(USE, evidence_bytes=0, egress_bytes=0, response_bytes=3.5e9)
    (line,) = [each for each in trial_bill(use, provider(rates=RATES), ON).lines if each.item == "egress"]
    assert (line.what, str(line.quantity), str(line.cost)) == ("responses", "3.5 GB", "0.32 USD")  # 3.5 × 0.09 = 0.315
    without = trial_bill(use, provider(), ON)
    assert not [each for each in (*without.lines, *without.unknown) if each.item == "egress"]


@given(held_s=st.floats(1e-3, 1e7), part=st.floats(0, 1.2), price=st.decimals("0.01", "999.99", places=2))
def test_measured_and_idle_are_exactly_what_was_held(held_s: float, part: float, price: Any) -> None:
    place = provider(prices=[{**LIST, "price": f"{price} USD/h"}])
    bill = trial_bill(replace(USE, held_s=held_s, measured_s=held_s * part), place, ON)
    instance = [line for line in bill.lines if line.item in ("gpu", "idle")]
    assert sum(exact(line.quantity.value) for line in instance) == exact(hours(held_s))
    assert sum(line.exact_cost for line in instance) == exact(hours(held_s)) * exact(float(price))
    assert bill.of("gpu", "idle") == Money(float(exact(hours(held_s)) * exact(float(price))))


def test_an_attempt_that_came_to_nothing_is_lost_whole() -> None:
    bill = trial_bill(replace(USE, usable=False, ended="out_of_memory", measured_s=60.0), provider(), ON)
    (line,) = bill.lines
    assert (line.item, line.what, str(line.cost)) == ("failed_launches", "out of memory", "196.64 USD")


def test_a_launch_that_never_had_a_place_costs_nothing_and_that_is_known() -> None:
    bill = trial_bill(replace(USE, usable=False, ended="insufficient_capacity", held_s=0.0, measured_s=None), provider(), ON)
    assert sums(bill) == {"failed_launches": "0.00 USD"}
    assert "failed_launches" not in {each.item for each in bill.unknown}


def test_what_is_not_declared_is_unknown_with_its_reason(golden: Golden) -> None:
    bill = trial_bill(USE, provider(), ON)
    golden("analysis.undeclared_costs", "\n".join(f"{each.item}: {each.reason}" for each in bill.unknown))
    assert sums(bill) == {"gpu": "147.48 USD", "idle": "49.16 USD"}


@pytest.mark.parametrize(
    ("use", "changed", "item", "reason"),
    [
        ({"held_s": None}, {}, "gpu", "the time that t1 held p was not recorded"),
        ({"held_s": None, "usable": False}, {}, "failed_launches", "the time that t1 held p was not recorded"),
        ({}, {"prices": []}, "gpu", "no price is declared for p, and none is accepted"),
        ({"usable": False}, {"prices": []}, "failed_launches", "no price is declared for p, and none is accepted"),
        ({"measured_s": None}, {}, "idle", "when t1 measured was not recorded: its whole time counts as gpu"),
        ({"retention_s": None}, {}, "storage", "evidence.keep in upkeep.yaml sets no end, so the stored time is unknown"),
        (
            {"share": None},
            {"overhead": [WORK]},
            "engineering",
            "image updates: 2 h for each campaign, and how many trials share them is not known",
        ),
        ({}, {"rates": [rate("egress", "0.09 USD/GB", until="2026-02-01")]}, "egress", "no egress rate holds on 2026-11-15 for p"),
    ],
)
def test_what_cannot_be_known_is_no_line(use: dict[str, Any], changed: dict[str, Any], item: str, reason: str) -> None:
    bill = trial_bill(replace(USE, **use), provider(**changed), ON)
    assert reason in {each.reason for each in bill.unknown if each.item == item}
    assert item not in bill.by_item()


def test_cores_that_nobody_declares_are_unknown() -> None:
    place = provider(rates=RATES, launcher=SIMULATED)
    assert "launcher.resources.cpu" in next(each.reason for each in trial_bill(USE, place, ON).unknown if each.item == "cpu")


def test_nothing_that_left_or_stayed_needs_no_rate() -> None:
    bill = trial_bill(replace(USE, egress_bytes=0, evidence_bytes=0), provider(), ON)
    assert {each.item for each in bill.unknown} == {"observability", "engineering"}


def test_a_cpu_provider_s_instance_is_its_cpu() -> None:
    place = provider(accelerator={"kind": "cpu", "count": 2}, launcher=SIMULATED, prices=[{**LIST, "price": "0.04 USD/h"}])
    assert sums(trial_bill(USE, place, ON)) == {"cpu": "0.06 USD", "idle": "0.02 USD"}


def test_spot_and_reserved_are_said() -> None:
    place = provider(prices=[LIST, {**LIST, "purchase": "spot", "price": "40 USD/h"}])
    bill = trial_bill(USE, place, ON, "spot")
    assert bill.lines[0].basis == "spot" and str(bill.of("gpu", "idle")) == "80.00 USD"
    assert trial_bill(USE, place, ON, "reserved").unknown[0].reason == quote(place, ON, "reserved").reason


def test_an_invoice_goes_before_the_list_in_its_own_month_and_way_to_pay(golden: Golden) -> None:
    invoice = {
        "month": "2026-11",
        "amount": "1000 EUR",
        "rate": "1.08 USD/EUR",
        "rate_on": "2026-12-01",
        "instance_hours": 12,
        "source": "invoice 4711",
    }
    place = provider(prices=[LIST, {**LIST, "purchase": "spot", "price": "40 USD/h"}], invoices=[invoice])
    line = trial_bill(USE, place, ON).lines[0]
    assert (line.basis, line.unit_price.amount, line.since) == ("invoiced", 90.0, date(2026, 11, 1))
    golden("analysis.invoice_source", line.source)
    assert trial_bill(USE, place, date(2026, 10, 31)).lines[0].basis == "list"
    assert trial_bill(USE, place, ON, "spot").lines[0].basis == "spot"


def test_an_amount_that_was_paid_in_advance_prices_every_month_that_it_covers() -> None:
    """A capacity block of 8 instances for 500 h, which its vendor dates to the first day."""
    block = {"since": "2026-11-20", "until": "2026-12-11", "amount": "125856 USD", "instance_hours": 4000, "source": "invoice 4712"}
    place = provider(prices=[LIST], invoices=[block])
    for day in (date(2026, 11, 20), date(2026, 11, 30), date(2026, 12, 1), date(2026, 12, 10)):
        line = trial_bill(USE, place, day).lines[0]
        assert (line.basis, line.unit_price.amount, line.since) == ("invoiced", 31.464, date(2026, 11, 20)), day
    for day in (date(2026, 11, 19), date(2026, 12, 11)):
        assert trial_bill(USE, place, day).lines[0].basis == "list", day


def test_rates_in_another_currency_are_exchanged_at_the_declared_worth() -> None:
    place = provider(rates=[rate("egress", "0.05 EUR/GiB", rate="1.08 USD/EUR", rate_on="2026-11-02")])
    line = next(each for each in trial_bill(replace(USE, egress_bytes=10 * 2**30), place, ON).lines if each.item == "egress")
    assert (str(line.quantity), line.unit_price.amount, str(line.cost)) == ("10 GiB", 0.054, "0.54 USD")
    assert line.source.startswith("egress page, ") and {"1.08", "2026-11-02"} <= set(line.source.split())


def test_checkpoints_are_stored_where_a_volume_holds_them() -> None:
    # 16 GB for 2 h of 730.5 h at 730.5 USD/GB-month: 32 USD.
    dear = [rate("storage", "730.5 USD/GB-month")]
    kept = trial_bill(replace(USE, evidence_bytes=0), provider(rates=dear, launcher={**CLUSTER, "volume_claim": "kept"}), ON)
    assert kept.of("storage") == Money(32.0)
    assert trial_bill(replace(USE, evidence_bytes=0), provider(rates=dear), ON).of("storage") is None


def test_a_month_s_work_is_shared_by_the_hours_that_are_used_in_one() -> None:
    # 20 h a month over 400 instance-hours: 0.05 h for each; 2 h held.
    monthly = {**WORK, "time": "20h", "per": "month", "instance_hours": 400}
    assert str(trial_bill(USE, provider(overhead=[WORK, monthly]), ON).of("engineering")) == "132.00 USD"


def test_of_eight_gpus_sold_one_by_one_only_the_one_that_a_trial_holds_is_paid() -> None:
    one, place = replace(USE, gpus=1), provider(sold_by="gpu")
    bill = trial_bill(one, place, ON)
    assert sums(bill) == {"gpu": "18.44 USD", "idle": "6.15 USD"}  # 1.5 h and 0.5 h × 98.32 ÷ 8
    assert str(bill.paid) == str(bill.share) == "24.58 USD"
    assert sums(trial_bill(replace(USE, gpus=8), place, ON)) == sums(trial_bill(USE, place, ON))
    rated = trial_bill(one, provider(rates=RATES, sold_by="gpu"), ON)
    assert {line.quantity.value for line in rated.lines if line.item == "observability"} == {0.25}


def test_an_instance_that_is_sold_whole_is_paid_whole_and_an_eighth_of_it_is_the_share() -> None:
    # 2 h at 98.32 USD/h are 196.64 USD, an eighth of them 24.58 USD; storage and the rest are no machine's.
    bill = trial_bill(replace(USE, gpus=1), provider(rates=RATES), ON)
    assert (str(bill.paid), str(bill.share)) == ("196.64 USD", "24.58 USD")
    assert bill.total is not None and bill.paid is not None and bill.total.amount > bill.paid.amount
    whole = trial_bill(replace(USE, gpus=8), provider(), ON)
    assert whole.paid == whole.share == bill.paid
    assert bill.condensed().share == bill.share
    assert trial_bill(replace(USE, held_s=None), provider(), ON).paid is None


def test_data_that_came_from_elsewhere_is_billed_as_what_leaves() -> None:
    place = provider(rates=[rate("egress", "0.09 USD/GB")])
    bill = trial_bill(replace(USE, egress_bytes=0, data_bytes=50e9), place, ON)
    (line,) = (each for each in bill.lines if each.item == "egress")
    assert (line.quantity.value, line.unit_price.amount) == (50.0, 0.09)
    assert len([each for each in trial_bill(replace(USE, data_bytes=50e9), place, ON).lines if each.item == "egress"]) == 2
