"""Bills: lines that are multiplied out, sums by item, and what is unknown."""

from __future__ import annotations

from datetime import date

import pytest

from plumbline.analysis.cost.bill import Bill, Line, MixedUnits, Money, Quantity, UnitPrice, Unknown, combine_bills

SINCE = date(2025, 1, 1)


def line(item: str, value: float, price: float, unit: str = "instance-hour", currency: str = "USD", what: str = "") -> Line:
    return Line(item, Quantity(value, unit), UnitPrice(price, currency, unit), "list", "a price page", SINCE, what)  # type: ignore[arg-type]


def test_the_seed_article_s_training_run() -> None:
    bill = Bill((line("gpu", 500, 98.32),))
    assert bill.total == Money(49_160.00) and str(bill.total) == "49,160.00 USD" and bill.complete


def test_the_seed_article_s_requests_against_hosting_them_oneself() -> None:
    hosted = Bill((line("hosted", 50_000_000, 0.0005, "request"),))
    machines = line("gpu", 1, 6_800.00, "month")
    people = line("engineering", 1, 15_000.00, "month")
    assert str(hosted.total) == "25,000.00 USD"
    assert str(Bill((machines,)).total) == "6,800.00 USD"
    own = Bill((machines, people))
    assert str(own.total) == "21,800.00 USD"
    assert own.by_item() == {"gpu": Money(6_800.0), "engineering": Money(15_000.0)}


def test_a_line_whose_price_does_not_fit_is_no_line() -> None:
    with pytest.raises(MixedUnits) as error:
        Line("egress", Quantity(30, "GB-month"), UnitPrice(0.09, "USD", "GB"), "declared", "a price page", SINCE)
    assert (error.value.expected, error.value.actual) == ("GB", "GB-month")


def test_a_bill_has_one_currency() -> None:
    mixed = Bill((line("gpu", 1, 12.29), line("egress", 1, 19.80, "GB", "EUR")))
    with pytest.raises(MixedUnits, match=r"19\.80 EUR \(egress\)") as error:
        _ = mixed.total
    assert (error.value.expected, error.value.actual) == ("USD", "EUR")


def test_what_is_unknown_is_not_counted_as_nothing() -> None:
    bill = Bill((line("gpu", 1, 2.0),), (Unknown("egress", "no egress rate is declared for x"),))
    assert bill.total == Money(2.0) and not bill.complete
    nothing = Bill((), (Unknown("gpu", "no price is declared for x"),))
    assert nothing.total is None and not nothing.complete and nothing.by_item() == {}


def test_bills_add_up_and_say_each_unknown_once() -> None:
    unknown = Unknown("egress", "no egress rate is declared for x")
    one = Bill((line("gpu", 1, 2.0), line("idle", 0.25, 2.0)), (unknown,))
    both = one + one
    assert both.total == Money(5.0) and both.unknown == (unknown,)
    assert both == combine_bills([one, one])
    assert [(each.item, each.quantity.value) for each in both.condensed().lines] == [("gpu", 2.0), ("idle", 0.5)]
    assert both.condensed().total == both.total


def test_lines_that_differ_in_their_price_stay_apart() -> None:
    bill = Bill((line("idle", 1, 2.0), line("gpu", 1, 3.0), line("gpu", 1, 2.0)))
    assert [(each.item, each.unit_price.amount) for each in bill.condensed().lines] == [("gpu", 3.0), ("gpu", 2.0), ("idle", 2.0)]
    assert bill.of("gpu") == Money(5.0) and bill.of("egress") is None


def test_many_small_lines_lose_nothing() -> None:
    assert Bill(tuple(line("gpu", 0.1, 0.1) for _ in range(1000))).total == Money(10.0)
