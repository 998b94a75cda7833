"""Amounts that come out to the cent, and that refuse to mix."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.analysis.cost.bill import MixedUnits, Money, Quantity, UnitPrice

CENTS = st.integers(-(10**12), 10**12).map(lambda n: n / 100)


def test_a_price_times_a_quantity_is_money() -> None:
    assert UnitPrice(98.32, "USD", "instance-hour") * Quantity(500, "instance-hour") == Money(49_160.00)
    assert UnitPrice(0.0005, "USD", "request") * Quantity(50e6, "request") == Money(25_000.00)


def test_currencies_are_never_added() -> None:
    with pytest.raises(MixedUnits) as added:
        Money(12.29) + Money(19.80, "EUR")
    with pytest.raises(MixedUnits) as subtracted:
        Money(12.29) - Money(19.80, "EUR")
    for error in (added.value, subtracted.value):
        assert (error.expected, error.actual) == ("USD", "EUR")
        assert all(str(amount) in str(error) for amount in (Money(12.29), Money(19.80, "EUR")))
    assert Money(12.29, "EUR") + Money(19.80, "EUR") == Money(32.09, "EUR")


def test_a_price_fits_its_unit_only() -> None:
    with pytest.raises(MixedUnits) as priced:
        UnitPrice(0.09, "USD", "GB") * Quantity(30, "GB-month")
    assert (priced.value.expected, priced.value.actual) == ("GB", "GB-month")
    with pytest.raises(MixedUnits) as added:
        Quantity(1, "GiB") + Quantity(1, "GB")
    assert (added.value.expected, added.value.actual) == ("GiB", "GB")


@given(st.lists(CENTS, min_size=1, max_size=50))
def test_a_sum_of_cents_is_a_whole_number_of_cents(amounts: list[float]) -> None:
    summed = sum((Money(a) for a in amounts), Money(0.0))
    assert summed.amount == round(math.fsum(amounts), 2)


def test_what_a_person_reads_is_rounded_once_and_to_the_cent() -> None:
    assert str(Money(49160.0)) == "49,160.00 USD"
    assert str(Money(1.005)) == "1.01 USD"  # half a cent up, of the decimal that was written
    assert str(Money(-21_800.004)) == "-21,800.00 USD"
    assert str(Money(0.00123)) == "0.00123 USD"  # not "0.00": it is not nothing
    assert str(Money(0.0)) == "0.00 USD"
    assert str(Money(0.1) + Money(0.2)) == "0.30 USD" and (Money(0.1) + Money(0.2)).amount == 0.3


def test_the_same_shared_over_several() -> None:
    assert Money(49_160.0) / 8 == Money(6_145.0)
    with pytest.raises(ZeroDivisionError):
        Money(1.0) / 0


def test_unit_prices_read_as_they_were_written() -> None:
    assert str(UnitPrice(0.0005, "USD", "request")) == "0.0005 USD/request"
    assert str(UnitPrice(120.0, "USD", "hour")) == "120 USD/hour"
    assert str(UnitPrice(6e-7, "USD", "token")) == "0.0000006 USD/token"


@pytest.mark.parametrize("build", [lambda: Money(math.nan), lambda: Quantity(-1, "GB"), lambda: UnitPrice(-0.1, "USD", "GB")])
def test_what_is_no_amount_is_refused(build) -> None:
    with pytest.raises(ValueError, match="expected"):
        build()
