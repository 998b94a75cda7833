"""What readings of a price mean: confirmed, seen once, held, or nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.prices.readings import FIRST, ONE, RESERVED, SPOT, days

from plumbline.analysis.prices.check import CONFIRMATION_PERIOD, PriceVerdict, check_price
from plumbline.results.price_reading import Reading
from plumbline.words.prices import verdict_reason


def why(found: PriceVerdict) -> str:
    return verdict_reason(found) or ""


def test_a_list_price_has_changed_when_it_was_seen_twice() -> None:
    once, twice = check_price(days(2.39, 2.99), 2.39), check_price(days(2.39, 2.99, 2.99), 2.39)
    assert (once.status, twice.status) == ("seen_once", "changed")
    assert twice.since == FIRST + timedelta(days=1) and twice.sightings == 2
    assert twice.effect == pytest.approx(0.251, abs=1e-3)


@pytest.mark.parametrize(("price", "meaning"), [(2.413, "unchanged"), (2.367, "unchanged"), (2.4139, "changed"), (2.36, "changed")])
def test_a_move_counts_from_one_per_cent(price: float, meaning: str) -> None:
    assert check_price(days(price, price), 2.39).status == meaning


def test_what_was_read_only_once_and_is_gone_again_is_no_change() -> None:
    assert check_price(days(2.39, 2.99, 2.39), 2.39).status == "unchanged"
    assert check_price(days(2.99, 2.39, 2.99), 2.39).status == "seen_once", "the sightings have the accepted price between them"


def test_two_prices_in_a_row_that_differ_confirm_neither_and_the_first_is_kept_as_a_step() -> None:
    found = check_price(days(2.39, 2.99, 3.4), 2.39)
    assert found.status == "seen_once" and [s.amount for s in found.steps] == [2.99]
    assert [s.amount for s in check_price(days(2.39, 2.99, 3.4, 3.4), 2.39).steps] == [2.99]


def test_another_source_that_says_the_same_confirms_at_once_and_one_that_does_not_confirms_nothing() -> None:
    catalog = replace(ONE, source="gpuhunt", source_version="20261102", observed_at=FIRST + timedelta(days=1))
    agreeing = check_price([*days(2.39, 2.99), replace(catalog, amount=2.98)], 2.39)
    assert (agreeing.status, agreeing.confirmed_by, agreeing.price) == ("changed", "gpuhunt", 2.99)
    assert check_price([*days(2.39, 2.99), replace(catalog, amount=2.39)], 2.39).status == "seen_once"
    old = replace(catalog, amount=2.99, observed_at=FIRST + timedelta(days=1) - CONFIRMATION_PERIOD - timedelta(hours=1))
    assert check_price([old, *days(2.39, 2.99)], 2.39).status == "seen_once", "what it said long ago says nothing of today"


def test_the_source_with_more_authority_is_checked_as_long_as_it_is_fresh() -> None:
    contract = replace(ONE, source="contract", source_version="2026-114")
    listed = replace(ONE, source="gpuhunt", source_version="20261101", amount=2.99, observed_at=FIRST + timedelta(hours=1))
    assert check_price([contract, listed], 2.39).status == "unchanged"
    later = replace(listed, observed_at=FIRST + CONFIRMATION_PERIOD + timedelta(hours=1))
    assert check_price([contract, listed, later], 2.39).status == "changed"


def test_what_is_asked_twice_at_once_is_one_sighting() -> None:
    changed, soon = days(2.39, 2.99), timedelta(days=1, minutes=59)
    assert check_price([*changed, replace(ONE, amount=2.99, observed_at=FIRST + soon)], 2.39).status == "seen_once"
    assert check_price([*changed, replace(ONE, amount=2.99, observed_at=FIRST + soon + timedelta(minutes=1))], 2.39).status == "changed"


def test_a_catalog_that_is_read_again_in_the_same_version_is_not_a_second_sighting() -> None:
    catalog = replace(ONE, source="gpuhunt", source_version="20261101", amount=2.99)
    again = replace(catalog, observed_at=FIRST + timedelta(hours=12))
    assert check_price([catalog, again], 2.39).status == "seen_once"
    assert check_price([catalog, replace(again, source_version="20261102")], 2.39).status == "changed"
    assert check_price([catalog, again, replace(again, observed_at=FIRST + CONFIRMATION_PERIOD)], 2.39).status == "changed", (
        "nobody corrected it"
    )


def test_what_still_stands_after_three_days_is_a_second_sighting_but_never_of_nothing() -> None:
    """A history to which only changes are written names each price once."""
    rows, nothing = days(2.39, 2.99), days(2.39, 0.0)
    assert check_price(rows, 2.39, now=rows[-1].observed_at + CONFIRMATION_PERIOD - timedelta(hours=1)).status == "seen_once"
    stands = check_price(rows, 2.39, now=rows[-1].observed_at + CONFIRMATION_PERIOD)
    assert (stands.status, stands.since, stands.sightings) == ("changed", rows[-1].observed_at, 2)
    assert stands.reading is rows[-1], "what was read, not that it still stands"
    assert check_price(nothing, 2.39, now=nothing[-1].observed_at + CONFIRMATION_PERIOD).sightings == 1
    silent = [replace(row, source="gpuhunt") for row in rows]
    assert check_price(silent, 2.39, now=rows[-1].observed_at + CONFIRMATION_PERIOD).status == "seen_once", (
        "a catalog that is down says nothing again"
    )


@pytest.mark.parametrize(
    ("price", "reason"),
    [(0.0, "nothing costs nothing"), (0.69, "more than 60 % away from the accepted 2.39"), (3.9, "more than 60 % away")],
)
def test_a_price_that_cannot_be_is_held_however_often_it_is_read(price: float, reason: str) -> None:
    held = check_price(days(2.39, price, price, price), 2.39)
    assert held.status == "held" and reason in why(held)
    assert held.since == FIRST + timedelta(days=1) and held.sightings == 3


@pytest.mark.parametrize("price", [1.0, 3.8])
def test_a_move_of_up_to_sixty_per_cent_is_believed_when_seen_twice(price: float) -> None:
    assert check_price(days(2.39, price, price), 2.39).status == "changed"


def test_a_second_source_confirms_a_large_move_but_never_a_price_of_nothing() -> None:
    catalog = replace(ONE, source="gpuhunt", source_version="20261102", observed_at=FIRST + timedelta(days=1))
    large = check_price([*days(2.39, 0.69), replace(catalog, amount=0.69)], 2.39)
    assert (large.status, large.confirmed_by) == ("changed", "gpuhunt")
    assert check_price([*days(2.39, 0.0), replace(catalog, amount=0.0)], 2.39).status == "held"


def test_a_reservation_is_held_unless_it_is_below_on_demand() -> None:
    held = check_price(days(2.0, 2.39, 2.39, of=RESERVED), 2.0, on_demand=2.39)
    assert held.status == "held" and "reserved 2.39 " in why(held)
    assert check_price(days(2.0, 2.3, 2.3, of=RESERVED), 2.0, on_demand=2.39).status == "changed"
    assert check_price(days(2.0, 2.3, 2.3, of=RESERVED), 2.0).status == "changed", (
        "without an on-demand price there is nothing to hold it against"
    )
    assert check_price(days(2.39, of=RESERVED), None, on_demand=2.39).status == "held", "also the first price there is"


def test_what_is_held_neither_confirms_nor_undoes_what_was_read_around_it() -> None:
    between = check_price(days(2.39, 2.99, 0.0, 2.99), 2.39)
    assert between.status == "changed" and between.since == FIRST + timedelta(days=1) and between.sightings == 2
    after = check_price(days(2.39, 2.99, 0.0), 2.39)
    assert after.status == "held" and [s.amount for s in after.steps] == [2.99]


def test_the_first_price_is_held_unless_its_source_lists_the_like_elsewhere() -> None:
    alone = check_price(days(2.39), None)
    assert (alone.status, alone.unproven, alone.effect) == ("held", True, None) and "no other price" in why(alone)
    assert check_price(days(2.39, 2.39, 2.39), None).sightings == 3, "a wrong price is read as often as a right one"
    assert check_price(days(0.0), None).status == "held"
    for of in (ONE, SPOT):
        like = replace(of, typical=(1.6, 2.0))
        assert [check_price(days(price, of=like), None).status for price in (1.19, 1.2, 1.8, 2.5, 2.51)] == [
            "held",
            "first",
            "first",
            "first",
            "held",
        ]
    assert "elsewhere at 1.60 to 2.00 USD" in why(check_price(days(0.01, of=replace(ONE, typical=(1.6, 2.0))), None))


def test_a_first_price_that_is_declared_or_that_a_second_source_says_too_is_believed() -> None:
    assert check_price(days(2.39, of=replace(ONE, source="contract")), None).status == "first"
    assert check_price(days(2.39, of=replace(ONE, source="simulated")), None).status == "first"
    for of in (ONE, SPOT):
        both = [*days(1.5, of=of), *days(1.5, of=replace(of, source="gpuhunt", typical=(90.0, 99.0)))]
        agreed = check_price(both, None)
        assert (agreed.status, agreed.confirmed_by, why(agreed)) == ("first", "gpuhunt", "gpuhunt says the same")
        assert check_price([*days(1.5, of=of), *days(1.9, of=replace(of, source="gpuhunt"))], None).status == "held"
        assert check_price([*days(0.0, of=of), *days(0.0, of=replace(of, source="gpuhunt"))], None).status == "held"


def test_a_replay_trusts_a_first_price_that_nothing_contradicts() -> None:
    assert check_price(days(2.39), None, trust_first=True).status == "first"
    assert check_price(days(0.1, of=SPOT), None, on_demand=2.39, trust_first=True).status == "held"


@pytest.mark.parametrize("of", [SPOT, RESERVED])
@pytest.mark.parametrize("accepted", [None, 1.0])
def test_spot_and_reserved_prices_are_held_at_on_demand_and_below_a_tenth_of_it(of: Reading, accepted: float | None) -> None:
    of = replace(of, typical=(0.01, 99.0))
    for price, held in ((2.39, True), (2.5, True), (2.38, False), (0.24, False), (0.23, True)):
        found = check_price(days(*[price] * 4, of=of), accepted, on_demand=2.39)
        named = "not below on-demand 2.39" if price > 1 else "below a tenth of on-demand 2.39"
        assert (named in why(found)) is held, (price, found)
        assert not held or (found.status, found.sightings) == ("held", 4)


def test_a_spot_price_above_on_demand_that_a_person_accepted_is_held_no_more() -> None:
    assert check_price(days(*[0.49] * 4, of=SPOT), 0.49, on_demand=0.44).status == "unchanged"
    assert check_price(days(0.49, 0.49, 0.6, of=SPOT), 0.49, on_demand=0.44).status == "held"


def test_a_spot_price_that_cannot_be_is_left_out_of_the_median() -> None:
    assert check_price(days(1.0, 1.0, 9.0, 1.0, of=SPOT), 1.0, on_demand=2.39).status == "unchanged"
    assert check_price(days(1.3, 1.3, 0.001, 1.3, of=SPOT), 1.0, on_demand=2.39).price == 1.3


def test_a_catalog_of_long_ago_says_nothing_of_today() -> None:
    old = replace(ONE, source="gpuhunt", source_version="20241220-1", amount=12.29, typical=(1.0, 99.0))
    year = old.observed_at + timedelta(days=365)
    found = check_price([old], 6.88, now=year, repeated=[old.reading_id])
    assert (found.status, found.price, found.accepted) == ("outdated", 12.29, 6.88) and "2026-11-01" in why(found)
    first = check_price([old], None, now=year)
    assert first.status == "held" and "2026-11-01" in why(first)
    today = replace(old, source_version="20271101-1", amount=6.88, observed_at=year)
    assert check_price([old, today], 6.88, now=year).status == "unchanged"
    history = replace(old, source="csv", amount=6.0)
    assert check_price([history], 6.88, now=year).status == "changed", "a history may contain changes only"


def test_a_catalog_that_is_read_again_days_after_its_date_counts_as_seen_again() -> None:
    catalog = replace(ONE, source="gpuhunt", source_version="20261101-1", amount=2.99)
    after = catalog.observed_at + CONFIRMATION_PERIOD
    assert check_price([catalog], 2.39, now=after).status == "seen_once", "it did not answer"
    assert check_price([catalog], 2.39, now=after - timedelta(hours=1), repeated=[catalog.reading_id]).status == "seen_once"
    assert check_price([catalog], 2.39, now=after, repeated=[catalog.reading_id]).status == "changed"


def test_of_a_spot_price_the_median_of_three_counts() -> None:
    peak = check_price(days(1.0, 1.0, 2.0, of=SPOT), 1.0)
    assert peak.status == "seen_once" and check_price(days(1.0, 2.0, 1.0, of=SPOT), 1.0).status == "unchanged"
    stays = check_price(days(1.0, 1.3, 1.4, of=SPOT), 1.0)
    assert (stays.status, stays.price, stays.since) == ("changed", 1.3, FIRST + timedelta(days=1))
    assert check_price(days(1.14, 1.14, 1.14, of=SPOT), 1.0).status == "unchanged"
    assert check_price(days(1.15, 1.15, 1.15, of=SPOT), 1.0).status == "changed"
    assert check_price(days(1.15, 1.15, of=SPOT), 1.0).status == "seen_once", "two are no three"


def test_a_spot_price_of_nothing_is_held_and_left_out_of_the_median_and_a_large_median_is_held() -> None:
    assert check_price(days(1.0, 1.0, 0.0, of=SPOT), 1.0).status == "held"
    assert check_price(days(1.3, 1.3, 0.0, 1.3, of=SPOT), 1.0).status == "changed"
    doubled = check_price(days(2.0, 2.0, 2.0, of=SPOT), 1.0)
    assert (doubled.status, doubled.sightings) == ("held", 3) and "median 2.00 " in why(doubled)
    catalog = replace(SPOT, source="gpuhunt", source_version="1", amount=1.9, observed_at=FIRST + timedelta(days=2))
    assert check_price([*days(2.0, 2.0, 2.0, of=SPOT), catalog], 1.0).confirmed_by == "gpuhunt"


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(ValueError, match="contract, csv"):
        check_price([], 2.39)


def test_what_was_paid_confirms_and_is_never_checked_itself() -> None:
    paid = [replace(r, source="opencost") for r in days(3.1, 2.98, start=1)]
    with pytest.raises(ValueError, match="contract, csv"):
        check_price(paid, 2.39)
    assert check_price([*days(2.39), *paid], 2.39).status == "unchanged"
    assert check_price([*days(2.39, 2.99), *paid], 2.39).confirmed_by == "opencost"
