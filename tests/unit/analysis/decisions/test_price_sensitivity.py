"""At which price the first place changes hands: held against cases whose answer is arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from tests.data.decision_trials import preference, repeats

from plumbline.analysis.decisions.decide import rank
from plumbline.analysis.decisions.sensitivity import PriceSwing, price_sensitivity
from plumbline.analysis.trial_sample import TrialSample

LATENCY = {"dear": 0.1, "cheap": 0.2, "slow": 0.3}
COST = {"dear": 6.0, "cheap": 2.0, "slow": 2.1}


def at(cost: Mapping[str, float], latency: Mapping[str, float] = LATENCY) -> Callable[[Mapping[str, float]], list[TrialSample]]:
    return lambda factors: [
        t
        for name, usd in cost.items()
        for t in repeats(name, {"time_to_first_token": latency[name], "cost_per_1k_requests": usd * factors.get(name, 1.0)})
    ]


def swings(*gates: str, cost: Mapping[str, float] = COST, **more: object) -> dict[str, PriceSwing]:
    wanted = preference({"time_to_first_token": 0.5, "cost_per_1k_requests": 0.5}, *gates, **more)
    return {s.provider: s for s in price_sensitivity("t", "inference", wanted, at(cost), {"dear": 30.0, "cheap": 10.0})}


def test_factors_worked_by_hand() -> None:
    found = swings()
    # Latency × cost, least first: dear 0.6, cheap 0.4, slow 0.63.
    assert found["cheap"].falls is None
    assert found["cheap"].rises is not None
    assert (found["cheap"].rises.first, found["cheap"].rises.factor) == ("dear", pytest.approx(1.5, rel=1e-3))
    assert found["cheap"].rises.usd_per_hour == pytest.approx(15.0, rel=1e-3)
    assert found["dear"].falls is not None
    assert found["dear"].falls.factor == pytest.approx(2 / 3, rel=1e-3)
    assert found["dear"].falls.usd_per_hour == pytest.approx(20.0, rel=1e-3)
    assert found["dear"].rises is None
    assert found["slow"].falls is not None
    assert (found["slow"].falls.first, found["slow"].falls.usd_per_hour) == ("slow", None)


def test_none_where_no_price_within_a_tenth_to_tenfold_changes_the_first() -> None:
    found = swings(cost={"cheap": 0.01, "slow": 9.0})
    assert (found["slow"].falls, found["slow"].rises) == (None, None)
    assert (found["cheap"].falls, found["cheap"].rises) == (None, None)


def test_a_price_that_opens_a_gate_counts() -> None:
    found = swings("cost_per_1k_requests <= 5USD in sweep", cost={"dear": 6.0, "slow": 4.9})
    assert found["dear"].falls is not None
    # Let in at 5 USD, and first at once: 0.1 s × 5 USD against 0.3 s × 4.9 USD.
    assert (found["dear"].falls.first, found["dear"].falls.factor) == ("dear", pytest.approx(5 / 6, rel=1e-3))


def test_nobody_eligible_has_nothing_to_swing() -> None:
    closed_to_all = "cost_per_1k_requests <= 0.5USD in sweep"
    assert swings(closed_to_all) == {}


def test_a_ranking_at_prices_on_both_sides_of_a_flip_agrees_with_it() -> None:
    draw = random.Random(7)
    latency = {f"p{i}": draw.uniform(0.1, 0.4) for i in range(8)}
    cost = {name: draw.uniform(1, 9) for name in latency}
    for gates in ((), ("cost_per_1k_requests <= 5USD in sweep",)):
        wanted, priced = preference({"time_to_first_token": 0.5, "cost_per_1k_requests": 0.5}, *gates), at(cost, latency)
        today = rank("t", "inference", wanted, priced({})).first
        found = price_sensitivity("t", "inference", wanted, priced)
        flips = [(s.provider, flip) for s in found for flip in (s.falls, s.rises) if flip is not None]
        assert today is not None and len(flips) > 3
        for provider, flip in flips:
            beyond = flip.factor ** (1 + 1e-9)
            before = flip.factor * (1 + 2e-4 if flip.factor < 1 else 1 - 2e-4)
            ranked = [rank("t", "inference", wanted, priced({provider: factor})).first for factor in (before, beyond)]
            assert [r.provider for r in ranked if r is not None] == [today.provider, flip.first]
