"""Ways to pay, by hand and from declarations."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.unit.analysis.cost.test_forecast import CHAT, DAY, SERVED, SOURCE, economics, trials
from tests.unit.analysis.cost.test_forecast import provider as rented

from plumbline.analysis.cost.forecast import ForecastInputs
from plumbline.analysis.cost.payment_options import MONTH_S, PaymentOptions, Serverless, payment_options

ALWAYS = {"since": "2026-01-01", **SOURCE}


def test_serverless_by_hand() -> None:
    """36 USD/h, one request a second when it is up, 10 s to start. One request a month, up for 60 s after it: 1 s busy, 60 s waiting, one start of
    10 s: 71 s, 0.71 USD."""
    place = Serverless(price=36.0, rate=1.0, idle=60.0, cold_start=10.0)
    assert place.monthly(1.0, 1.0) == pytest.approx(0.71, rel=1e-3)
    # A start is billed for 300 s at least: 3.00 USD.
    assert Serverless(price=36.0, rate=1.0, idle=60.0, minimum=300.0, cold_start=10.0).monthly(1.0, 1.0) == pytest.approx(3.0, rel=1e-3)


def test_serverless_that_never_scales_to_zero_costs_the_month() -> None:
    # 0.5 requests a second and an hour until it goes away: it is up all month, 730.5 h · 36 USD.
    assert Serverless(price=36.0, rate=1.0, idle=3600.0, cold_start=10.0).monthly(0.5 * MONTH_S, 1.0) == pytest.approx(26_298.0)


def test_serverless_without_waiting_starts_between_requests() -> None:
    # λ = 0.1/s, 1 s each, no idle time: 262,980 requests are busy 1 s each, and e^(−0.1) of them start for 10 s.
    place = Serverless(price=36.0, rate=1.0, cold_start=10.0)
    volume = 0.1 * MONTH_S
    assert place.monthly(volume, 1.0) == pytest.approx(volume * (1 + 10 * math.exp(-0.1)) * 0.01)


def options(*assumptions: dict[str, Any], growth: float | None = None, **more: Any) -> PaymentOptions | str:
    declared = economics(*assumptions, hosted=[{"name": "vendor", "workloads": [CHAT.name], "request": "2 USD/1k requests", **ALWAYS}])
    return payment_options(ForecastInputs(rented(**more), CHAT, trials(CHAT, SERVED), declared, DAY), growth=growth)


OWNED = {"capital": "350640 USD", "years": 4.0, **ALWAYS}


def test_what_has_a_price_is_compared_and_each_is_cheapest_somewhere() -> None:
    """10 requests a second, 36,000 an hour. Rented 36 USD/h, owned 10 USD/h all month, hosted 72 USD for an hour's requests. Rented costs half of
    hosted at every utilisation, and less than owned below 10 / 36 = 27.8 %."""
    found = options(owned=[OWNED])
    assert isinstance(found, PaymentOptions) and found.months == ()
    assert [option.name for option in found.options] == ["rent", "own", "vendor"]
    assert found.spans == (("rent", 0.0, 0.277), ("own", 0.277, 1.0))


def test_growth_is_declared_or_given() -> None:
    said = {"volume": {"requests": 1_000_000}, "growth": "5%/month"}
    declared, given = options(said), options(said, growth=0.1)
    assert isinstance(declared, PaymentOptions) and isinstance(given, PaymentOptions)
    assert [round(ways.months[1].volume) for ways in (declared, given)] == [1_050_000, 1_100_000]
    assert len(declared.months) == len(given.months) == 12
    assert declared.totals[0] == pytest.approx(sum(month.costs[0] for month in declared.months))


def test_one_way_alone_is_no_comparison() -> None:
    case = ForecastInputs(rented(), CHAT, trials(CHAT, SERVED), economics(), DAY)
    assert isinstance(payment_options(case), str)
