"""Which declared price holds on a day."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from tests.golden import Golden

from plumbline.analysis.prices.book import InstanceShare, charged, prices_in_force, quote, share_of, with_effective_prices
from plumbline.archive import PriceView
from plumbline.declarations import Price, Provider


def provider(*prices: dict[str, object]) -> Provider:
    return Provider.model_validate(
        {
            "name": "eks-p5",
            "cloud": "aws",
            "region": "us-east-1",
            "instance_type": "p5.48xlarge",
            "accelerator": {"kind": "cpu", "count": 1},
            "launcher": {"kind": "local", "cpus": (0,)},
            "prices": tuple(Price.model_validate(p) for p in prices),
        }
    )


BEFORE = {"purchase": "on_demand", "price": "98.32 USD/h", "since": date(2025, 1, 1), "until": date(2025, 6, 1), "source": "list price"}
AFTER = {"purchase": "on_demand", "price": "55.04 USD/h", "since": date(2025, 6, 1), "source": "list price after the cut"}


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (date(2024, 12, 31), None),
        (date(2025, 1, 1), 98.32),
        (date(2025, 5, 31), 98.32),
        (date(2025, 6, 1), 55.04),
        (date(2030, 1, 1), 55.04),
    ],
)
def test_the_price_that_holds_on_the_day(on: date, expected: float | None) -> None:
    price = provider(BEFORE, AFTER).price_on(on)
    assert (price.price if price else None) == expected


def test_one_price_is_in_force_on_each_day() -> None:
    """An accepted price holds before the declared one, which ends there and holds again afterwards."""
    seen = datetime(2025, 7, 1, tzinfo=timezone.utc)
    summer = PriceView(
        "eks-p5", "on_demand", 40.0, date(2025, 7, 1), date(2025, 9, 1), "a promotion", first_seen_at=seen, last_seen_at=seen
    )
    own = with_effective_prices(provider({**BEFORE, "until": None}), [summer])
    spans = [(p.price, p.since, p.until) for p in prices_in_force(own, "on_demand")]
    assert spans == [
        (98.32, date(2025, 1, 1), date(2025, 7, 1)),
        (40.0, date(2025, 7, 1), date(2025, 9, 1)),
        (98.32, date(2025, 9, 1), None),
    ]
    for day in (date(2025, 1, 1), date(2025, 6, 1), date(2025, 7, 1), date(2025, 8, 31), date(2025, 9, 1)):
        (held,) = (p for p in prices_in_force(own, "on_demand") if p.since <= day and (p.until is None or day < p.until))
        assert (price := own.price_on(day)) is not None and (price.price, price.source) == (held.price, held.source)
    assert prices_in_force(provider(BEFORE), "on_demand")[-1].until == date(2025, 6, 1), "no price after its end"
    assert prices_in_force(own, "spot") == ()


def test_a_spot_price_is_not_an_on_demand_price() -> None:
    only_spot = provider({**AFTER, "purchase": "spot"})
    assert only_spot.price_on(date(2025, 7, 1)) is None
    assert only_spot.price_on(date(2025, 7, 1), "spot") is not None
    assert quote(only_spot, date(2025, 7, 1)).basis is None


def test_a_quote_names_its_basis_or_what_is_declared(golden: Golden) -> None:
    day = date(2025, 7, 1)
    whole = quote(provider(BEFORE, AFTER), day)
    missing = [quote(place, day) for place in (provider(), provider({**AFTER, "purchase": "spot"}), provider(BEFORE))]
    assert whole.reason is None and [quoted.basis for quoted in missing] == [None] * 3
    part = charged(whole, InstanceShare(2, 8, assumed=True))
    golden("analysis.quotes", "\n".join([str(whole.basis), str(part.basis), *(str(quoted.reason) for quoted in missing)]))


def test_a_trial_is_charged_its_share_of_an_instance_with_gpus_only() -> None:
    node = {"accelerator": {"kind": "nvidia", "count": 8}, "launcher": {"kind": "simulated", "seed": 1}}
    whole = provider(AFTER)
    assert share_of(whole, 1) is None, "the cores of a CPU provider are one trial's"
    gpus = Provider.model_validate({**whole.model_dump(exclude={"accelerator", "launcher", "prices"}), **node})
    assert share_of(gpus, 2) == InstanceShare(2, 8, assumed=True) and share_of(
        gpus.model_copy(update={"sold_by": "gpu"}), 2
    ) == InstanceShare(2, 8)
    assert share_of(gpus, 8) is share_of(gpus, None) is None
    basis = charged(quote(whole, date(2025, 7, 1)), InstanceShare(2, 8, assumed=True)).basis
    assert basis is not None and basis.usd_per_hour == 13.76
    unpriced = quote(provider(), date(2025, 7, 1))
    assert charged(unpriced, InstanceShare(2, 8)) is unpriced
