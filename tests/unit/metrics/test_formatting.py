"""Numbers as people read them."""

from __future__ import annotations

import pytest

from plumbline.metrics import METRICS
from plumbline.metrics.formatting import (
    common_scale,
    format_money,
    format_money_change,
    format_monthly,
    format_probability,
    format_quantity,
    unknown_name,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.01234, "s", "12.3 ms"),
        (62.0, "s", "62.0 s"),
        (150.0, "s", "2.50 min"),
        (4e-5, "s", "40.0 µs"),
        (-0.05, "s", "−50.0 ms"),
        (0.0, "s", "0 s"),
        (0.0123, "ratio", "1.23 %"),
        (12345.0, "tokens/s", "12,345 tokens/s"),
        (3.2e11, "FLOP/s", "320 GFLOP/s"),
        (61e6, "bytes", "58.2 MiB"),
        (98.32, "USD", "98.32 USD"),
        (0.00123, "USD", "0.00123 USD"),
        (12.0, "count", "12"),
        (1.127, "1", "1.13"),
        (2.17, "nats", "2.17 nats"),
        (None, "s", "–"),
    ],
)
def test_a_number_has_three_digits_and_a_fitting_unit(value, unit, text):
    assert format_quantity(value, unit) == text


def test_every_unit_of_the_catalogue_can_be_read():
    assert all(format_quantity(1.5, m.unit) for m in METRICS.values())


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "0 USD"),
        (0.000906, "0.000906 USD"),
        (0.0475, "0.0475 USD"),
        (0.5, "0.50 USD"),
        (27.6, "27.60 USD"),
        (999.994, "999.99 USD"),
        (999.996, "1,000 USD"),
        (-5670.4, "−5,670 USD"),
        (None, "–"),
    ],
)
def test_money_reads_the_same_alone_and_in_a_column(amount, text):
    assert format_money(amount) == text == format_quantity(amount, "USD") == common_scale("USD", [amount, 3.0, 4e5]).text(amount)


def test_a_price_change_tells_the_two_apart():
    assert format_money_change(23.92, 31.2, "USD/h") == "23.92 → 31.20 USD/h (+30 %)"
    assert format_money_change(2.49, 2.4901) == "2.4900 → 2.4901 USD (+0.0 %)"
    assert format_money_change(0.5, 0.50001) == "0.50000 → 0.50001 USD (+0.0 %)"
    assert format_money_change(None, 2.5) == "2.50 USD"


def test_an_estimate_a_month_has_two_digits():
    assert [format_monthly(usd) for usd in (1234.0, -33.3, 0.334)] == [
        "about 1,200 USD a month",
        "saves about 33 USD a month",
        "about 0.33 USD a month",
    ]


def test_a_probability_is_never_certain():
    assert [format_probability(p) for p in (1.0, 0.995, 0.87, 0.004, None)] == ["> 99 %", "> 99 %", "87 %", "< 1 %", "–"]


def test_an_unknown_name_is_answered_by_what_begins_with_it_then_by_what_holds_its_parts() -> None:
    known = ("aurora-us-h100", "borealis-eu-a100", "chat-8b", "h100-spot", "zephyr-eu-h100")
    assert unknown_name("provider", "h100", known).endswith(
        "expected one of h100-spot, aurora-us-h100, zephyr-eu-h100, borealis-eu-a100, chat-8b"
    )
    assert unknown_name("provider", "H100 EU", known).startswith('no provider is called "H100 EU"; expected one of zephyr-eu-h100,')
    assert "expected one of chat-8b," in unknown_name("workload", "chta-8b", known)
    assert unknown_name("provider", "", ()) == 'no provider is called ""; expected one of (none)'
