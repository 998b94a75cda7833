"""Ways to pay, by hand and from declarations."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.analysis.cost.test_forecast import CHAT, DAY, SERVED, SOURCE, economics, trials
from tests.unit.analysis.cost.test_forecast import provider as rented

from plumbline.analysis.cost.forecast import ForecastInputs, cost_forecast
from plumbline.analysis.cost.hosted_forecast import SelfHosted, Serverless, even_utilisation, even_volume, hosted_forecast
from plumbline.analysis.cost.payment_options import PaymentOptions, payment_options
from plumbline.analysis.cost.scale_to_zero import MONTH_S, ScaleToZero

ALWAYS = {"since": "2026-01-01", **SOURCE}


def serverless(rate: float = 1.0, residence: float = 1.0, **more: float) -> Serverless:
    return Serverless(price=36.0, rate=rate, endpoint=ScaleToZero(rate, residence, **more))


def test_serverless_by_hand() -> None:
    """36 USD/h, one request a second when it is up, 10 s to start. One request a month, up for 60 s after it: 1 s busy, 60 s waiting, one start of
    10 s: 71 s, 0.71 USD."""
    assert serverless(idle=60.0, start=10.0).monthly(1.0, 1.0) == pytest.approx(0.71, rel=1e-3)
    # A start is billed for 300 s at least: 3.00 USD.
    assert serverless(idle=60.0, minimum=300.0, start=10.0).monthly(1.0, 1.0) == pytest.approx(3.0, rel=1e-3)


def test_a_request_is_billed_while_it_is_present_and_not_for_its_share_of_the_batch() -> None:
    """1,000 requests a month of 5 s each are 5,000 s at 36 USD/h: 50.00 USD less what overlaps, although a full batch serves 19 a second."""
    assert serverless(19.0, 5.0).monthly(1_000.0, 1.0) == pytest.approx(50.0, rel=2e-3)
    assert SelfHosted(price=36.0, rate=19.0).monthly(1_000.0, 1.0) == pytest.approx(0.526, rel=1e-3)


def test_serverless_that_never_scales_to_zero_costs_the_month() -> None:
    # 0.5 requests a second and an hour until it goes away: it is up all month, 730.5 h · 36 USD.
    assert serverless(idle=3600.0, start=10.0).monthly(0.5 * MONTH_S, 1.0) == pytest.approx(26_298.0)
    # 2.5 times what one worker serves: three of them, the last one half busy.
    assert serverless().monthly(2.5 * MONTH_S, 1.0) == pytest.approx(2.5 * 26_298.0)


def test_serverless_without_waiting_starts_between_requests() -> None:
    # One slot, λ = 0.1/s, 1 s each, no idle time: busy a tenth of the time, and 10 s of each 1/λ + 10 s of what is left it starts.
    up = 0.1 + 0.9 * 10 / (10 + 10)
    assert serverless(start=10.0).monthly(0.1 * MONTH_S, 1.0) == pytest.approx(up * 26_298.0)


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


SCALED = {
    "prices": [],
    "launcher": {"kind": "simulated", "seed": 7, "nodes": 1},
    "serverless": [{"gpu_second": "0.01 USD/GPU-second", "idle": "60s", **ALWAYS}],
}
PRESENT = SERVED | {"request_latency mean steady": 5.0}


def case_of(numbers: dict[str, float], *assumptions: dict[str, Any]) -> ForecastInputs:
    declared = economics(*assumptions, hosted=[{"name": "vendor", "workloads": [CHAT.name], "request": "2 USD/1k requests", **ALWAYS}])
    return ForecastInputs(rented(**SCALED), CHAT, trials(CHAT, numbers), declared, DAY)


def inputs(case: ForecastInputs) -> tuple[Any, ...]:
    return case.provider, case.workload, case.trials, case.economics, case.on


def test_without_a_measured_residence_the_bill_is_unknown_on_every_surface() -> None:
    case = case_of(SERVED, {"volume": {"requests": 1_000_000}})
    forecast, hosted, ways = cost_forecast(*inputs(case)), hosted_forecast(*inputs(case)), payment_options(case)
    assert (forecast.model, hosted.own) == (None, None) and isinstance(ways, str)
    for reason in (forecast.reason, hosted.reason, ways):
        assert reason is not None and "request_latency" in reason


def test_without_a_volume_an_outcome_of_an_endpoint_that_scales_to_zero_has_no_cost() -> None:
    found = cost_forecast(*inputs(case_of(PRESENT)))
    assert found.model is None and found.reason is not None and "volume" in found.reason


def test_every_surface_bills_the_same_month() -> None:
    """The forecast of a million good requests, the break-even and the ways to pay: one bill."""
    case = case_of(PRESENT, {"volume": {"requests": 1_000_000}})
    gpus = case.provider.accelerator.count or 1
    bill = ScaleToZero(10.0, 5.0, idle=60.0).hours(1_000_000.0) * 36.0 * gpus
    forecast, hosted, ways = cost_forecast(*inputs(case)), hosted_forecast(*inputs(case)), payment_options(case)
    assert forecast.scenarios is not None and hosted.own is not None and isinstance(ways, PaymentOptions)
    assert forecast.amount == 1_000_000.0 and forecast.scenarios.expected.total == pytest.approx(bill)
    assert hosted.own.monthly(1_000_000.0, 1.0) == ways.months[0].costs[0] == pytest.approx(bill)
    assert "cold_start" in {m.what for m in forecast.unknown}


@pytest.mark.parametrize("fixed", [0.0, 1_000.0, 200_000.0])
@pytest.mark.parametrize("hosted", [0.0102, 0.02, 5.0])
def test_serverless_stays_cheaper_beyond_its_break_even(fixed: float, hosted: float) -> None:
    own = Serverless(price=36.0, rate=1.0, fixed=fixed, endpoint=ScaleToZero(1.0, 4.0, idle=30.0, start=20.0))
    found = even_volume(own, hosted, 1.0).value
    assert found is not None
    for more in (1.0001, 1.01, 1.3, 2.0, 7.7):
        assert own.monthly(found * more, 1.0) <= found * more * hosted * (1 + 1e-9)
    if found:
        assert own.monthly(found * (1 - 1e-6), 1.0) > found * (1 - 1e-6) * hosted
    assert even_volume(own, 0.0099, 1.0).value is None
    assert even_utilisation(own, hosted, 1e6).value is None


def test_an_eighth_of_an_instance_is_not_owned() -> None:
    """One of eight GPUs serves 10 requests a second: a rented eighth costs 4.50 USD/h, an owned instance 10 USD/h, of which eight deployments
    serve 80 a second. 1,000 requests a month need one instance, whole, all month: 730.5 h · 10 USD."""
    eight = {"accelerator": {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}, "owned": [OWNED]}
    chat = CHAT.model_copy(update={"gpus": 1})
    declared = economics(hosted=[{"name": "vendor", "workloads": [CHAT.name], "request": "2 USD/1k requests", **ALWAYS}])
    found = payment_options(ForecastInputs(rented(**eight), chat, trials(chat, SERVED), declared, DAY))
    assert isinstance(found, PaymentOptions)
    rent, own = (next(o for o in found.options if o.name == name) for name in ("rent", "own"))
    assert isinstance(rent.cost, SelfHosted) and isinstance(own.cost, SelfHosted)
    assert (rent.cost.price, own.cost.price, own.cost.rate) == (pytest.approx(4.5), pytest.approx(10.0), pytest.approx(8 * rent.cost.rate))
    fleet = own.fleet(1_000.0, 1.0)
    assert fleet is not None and fleet.bought == 1.0 and own.monthly(1_000.0, 1.0) == pytest.approx(7_305.0)
    assert found.capacity == pytest.approx(own.cost.rate * MONTH_S) and "8 deployments" in own.basis
