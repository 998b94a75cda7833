"""Rates, overhead and invoices of providers as they are declared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from plumbline.declarations import Provider

STORAGE = {"item": "storage", "price": "0.08 USD/GB-month", "since": "2026-01-01", "source": "a price page"}
WORK = {"what": "image updates", "time": "2h", "per": "campaign", "price": "120 USD/h", "since": "2026-01-01", "source": "an estimate"}
BLOCK = {"since": "2026-11-20", "until": "2026-12-11", "amount": "125856 USD", "instance_hours": 4000, "source": "invoice 4712"}
INVOICE = {"month": "2026-10", "amount": "1234.50 USD", "instance_hours": 12.5, "source": "invoice 4711"}


def provider(**changed: Any) -> Provider:
    declared = {
        "name": "p",
        "cloud": "c",
        "region": "r",
        "instance_type": "i",
        "accelerator": {"kind": "nvidia", "count": 8},
        "launcher": {"kind": "simulated", "seed": 1},
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def test_everything_is_declared_with_its_unit() -> None:
    euros = {**STORAGE, "item": "egress", "price": "0.05 EUR/GB", "rate": "1.08 USD/EUR", "rate_on": "2026-11-02"}
    found = provider(rates=[STORAGE, euros], overhead=[WORK], invoices=[INVOICE])
    assert found.rates[0].price == (0.08, "USD", "GB-month")
    assert found.rates[1].usd_per_unit == 1.08
    assert found.overhead[0].time == 7200.0
    assert found.invoices[0].amount == (1234.5, "USD")
    written = found.model_dump(mode="json", include={"rates", "overhead", "invoices"})
    assert (written["rates"][0]["price"], written["invoices"][0]["amount"]) == ("0.08 USD/GB-month", "1234.5 USD")


def test_what_is_given_away_has_a_rate_of_nothing() -> None:
    assert provider(rates=[{**STORAGE, "price": "0 USD/GB-month"}]).rates[0].price.amount == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"rates": [{**STORAGE, "price": 0.08}]},
            '"0.08" is not a price with its currency and unit; expected one such as 0.08 USD/GB-month',
        ),
        ({"rates": [{**STORAGE, "price": "0.09 USD/GB"}]}, "billed by GB-month or GiB-month; expected one such"),
        ({"rates": [{**STORAGE, "item": "network"}]}, "Input should be 'cpu', 'storage', 'egress' or 'observability'"),
        ({"rates": [{**STORAGE, "price": "0.08 EUR/GB-month"}]}, "price is in EUR; expected rate, such as 1.08 USD/EUR, and rate_on"),
        ({"rates": [{**STORAGE, "rate": "1.08 USD/EUR"}]}, "rate is not needed: the price is in USD"),
        ({"rates": [{**STORAGE, "until": "2025-01-01"}]}, "until 2025-01-01 is not after since 2026-01-01"),
        ({"rates": [STORAGE, {**STORAGE, "since": "2026-06-01"}]}, "two storage rates hold on 2026-06-01; expected `until: 2026-06-01`"),
        ({"overhead": [{**WORK, "price": "120 USD/month"}]}, "expected one such as 120 USD/h"),
        ({"overhead": [{**WORK, "per": "month"}]}, "per is month and instance_hours is missing"),
        ({"overhead": [{**WORK, "instance_hours": 700}]}, "per is campaign and instance_hours is given"),
        ({"overhead": [{**WORK, "time": "2"}]}, '"2" has no unit'),
        (
            {"invoices": [{**INVOICE, "amount": "1234.50"}]},
            '"1234.50" is not an amount with its currency; expected one such as 1234.50 USD',
        ),
        ({"invoices": [{**INVOICE, "amount": "99 EUR"}]}, "amount is in EUR; expected rate"),
        ({"invoices": [{**INVOICE, "month": "2026-13"}]}, "month"),
        ({"invoices": [{**INVOICE, "amount": "0 USD"}]}, "amount is 0 USD; expected what was paid, above 0"),
        ({"invoices": [{**INVOICE, "since": "2026-10-01"}]}, "expected month, or both since and until"),
        ({"invoices": [{**BLOCK, "until": None}]}, "expected month, or both since and until"),
        ({"invoices": [{**BLOCK, "until": "2026-11-20"}]}, "until 2026-11-20 is not after since 2026-11-20"),
        ({"invoices": [BLOCK, {**INVOICE, "month": "2026-12"}]}, "two on_demand invoices of 2026-12; expected one with the sum"),
        ({"invoices": [{**INVOICE, "instance_hours": 0}]}, "greater than 0"),
        ({"invoices": [INVOICE, INVOICE]}, "two on_demand invoices of 2026-10; expected one with the sum of amounts and instance_hours"),
    ],
)
def test_what_could_not_be_reckoned_with_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        provider(**changed)
    assert message in str(error.value)


def test_the_cores_of_an_instance_that_is_all_cores_are_not_paid_twice() -> None:
    cpu = {"accelerator": {"kind": "cpu", "count": 2}, "launcher": {"kind": "local", "cpus": [0, 1]}}
    rate = {**STORAGE, "item": "cpu", "price": "0.04 USD/core-hour"}
    assert provider(rates=[rate]).rates[0].item == "cpu"
    with pytest.raises(ValidationError, match=r"accelerator\.kind is cpu.*prices"):
        provider(**cpu, rates=[rate])


def test_rates_follow_each_other() -> None:
    found = provider(rates=[{**STORAGE, "until": "2026-06-01"}, {**STORAGE, "since": "2026-06-01", "price": "0.06 USD/GB-month"}])
    assert [rate.price.amount for rate in found.rates] == [0.08, 0.06]


def test_trials_carry_nothing_of_it() -> None:
    found = provider(rates=[STORAGE], overhead=[WORK], invoices=[INVOICE])
    assert found.of_trial() == provider()
