"""Which declared price holds on a day."""

from __future__ import annotations

from datetime import date

import pytest

from plumbline.analysis.prices.book import InstanceShare, charged, quote, share_of
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


def test_a_spot_price_is_not_an_on_demand_price() -> None:
    only_spot = provider({**AFTER, "purchase": "spot"})
    assert only_spot.price_on(date(2025, 7, 1)) is None
    assert only_spot.price_on(date(2025, 7, 1), "spot") is not None
    assert quote(only_spot, date(2025, 7, 1)).reason == "no on_demand price is declared for eks-p5 (declared: spot)"


def test_the_reason_says_what_is_declared() -> None:
    assert quote(provider(), date(2025, 7, 1)).reason == "no price is declared for eks-p5"
    gone = quote(provider(BEFORE), date(2025, 7, 1))
    assert gone.basis is None
    assert gone.reason == "no on_demand price of eks-p5 holds on 2025-07-01 (declared: 2025-01-01 to 2025-06-01)"


def test_the_basis_names_purchase_price_date_and_source() -> None:
    basis = quote(provider(BEFORE, AFTER), date(2025, 7, 1)).basis
    assert str(basis) == "on_demand, 55.04 USD/h since 2025-06-01, source: list price after the cut"


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
    assert basis is not None and basis.usd_per_hour == 13.76 and basis.hour == "55.04 USD/h × 2/8"
    unpriced = quote(provider(), date(2025, 7, 1))
    assert charged(unpriced, InstanceShare(2, 8)) is unpriced
