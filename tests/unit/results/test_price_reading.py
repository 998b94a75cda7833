"""One price, in both hours and in USD, and what is no price."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from plumbline.results.price_reading import Reading

AT = datetime(2026, 11, 21, 6, 0, tzinfo=timezone.utc)
LIST = Reading("eks-p5", "on_demand", None, "gpuhunt", "20261121", AT, 55.04, "USD", "instance_hour", 8)


def test_an_instance_price_is_divided_among_its_gpus() -> None:
    assert LIST.usd_per_instance_hour == 55.04
    assert LIST.usd_per_gpu_hour == pytest.approx(6.88)


def test_a_gpu_price_in_another_currency_becomes_usd_of_the_whole_instance() -> None:
    contract = replace(
        LIST, purchase="reserved", term="1y", source="contract", amount=2.0, currency="EUR", per="gpu_hour", usd_per_unit=1.1
    )
    assert contract.usd_per_gpu_hour == pytest.approx(2.2)
    assert contract.usd_per_instance_hour == pytest.approx(17.6)


def test_the_id_is_the_same_for_the_same_reading_and_another_for_any_other_field() -> None:
    assert replace(LIST, amount=55).reading_id == replace(LIST, amount=55.0).reading_id
    others = [
        replace(LIST, provider="eks-p5en"),
        replace(LIST, purchase="spot"),
        replace(LIST, source_version="20261122"),
        replace(LIST, observed_at=AT + timedelta(seconds=1)),
        replace(LIST, amount=55.05),
        replace(LIST, per="gpu_hour"),
    ]
    assert len({LIST.reading_id, *(other.reading_id for other in others)}) == len(others) + 1


def test_a_price_of_zero_is_kept_for_the_check_to_hold() -> None:
    assert replace(LIST, amount=0.0).usd_per_gpu_hour == 0.0


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"amount": -1.0}, "amount is -1.0"),
        ({"amount": float("nan")}, "amount is nan"),
        ({"gpus": 0}, "gpus is 0"),
        ({"usd_per_unit": 0.0, "currency": "EUR"}, "usd_per_unit is 0.0"),
        ({"usd_per_unit": 1.1}, "usd_per_unit is 1.1"),
        ({"observed_at": AT.replace(tzinfo=None)}, "observed_at is 2"),
        ({"term": "1y"}, "term is 1y"),
    ],
)
def test_what_no_price_can_be_is_refused_with_its_field(changed: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=f"eks-p5: {named}"):
        replace(LIST, **changed)
