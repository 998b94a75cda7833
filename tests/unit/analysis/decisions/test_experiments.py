"""The next best experiment: what it gains in worlds whose answer is known by hand."""

from __future__ import annotations

from datetime import date
from math import asin, pi, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from tests.data.decision_trials import preference, repeats

from plumbline.analysis.decisions.current_results import CurrentResults, TeamDecision
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.experiments import Experiment, TrialCost, certainty_gain, gain_bound, rank_experiments
from plumbline.analysis.decisions.repeat_noise import RepeatScatter, draw
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference

NORMALS = np.array([NormalDist().inv_cdf((k + 0.5) / 200) for k in range(200)])
LATENCY = preference({"time_to_first_token": 1.0})
SLOTS = ("02:00", "10:00", "18:00")
NOISE = (0.97, 1.0, 1.03, 0.98, 1.02, 1.0)


def timed(name: str, at: float, scatter: float, workload: str = "chat") -> list[TrialSample]:
    values = ({"time_to_first_token": at * (1 + scatter * (s - 1))} for s in NOISE)
    return repeats(name, *values, workload=workload, slots=SLOTS)


def decided(*trials: list[TrialSample], weights: Preference = LATENCY) -> TeamDecision:
    flat = tuple(t for own in trials for t in own)
    campaigns = {(t.provider, t.workload): "2026-11" for t in flat}
    current = CurrentResults(flat, {}, campaigns, frozenset(), date(2026, 11, 1))
    return TeamDecision(decide("t", "inference", weights, flat), weights, current)


def found(choice: TeamDecision, usd: dict[str, float | None] | None = None) -> tuple[Experiment, ...]:
    prices = usd or {}
    costs = {
        place: TrialCost(len(SLOTS), prices.get(place[0], 1.0), None if place[0] not in prices else "no price", 50)
        for place in choice.current.campaigns
    }
    return rank_experiments(choice, costs)


def gain(lead: float, known: float, share: float = 1.0) -> float:
    """Of a provider with standard normal uncertainty and a `lead` over one that is known; eligible in a `share` of the draws. Mean of six seeds."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        own = lead + rng.standard_normal(4000)
        wins = np.where(rng.random(4000) < share, own > 0, 0.0)
        found.append(certainty_gain(np.stack([wins, 1 - wins]), np.ones(4000), own, np.full(4000, (1 - known) / known), rng, 0))
    return float(np.mean(found))


@pytest.mark.parametrize("known", [0.25, 0.5, 0.9])
def test_the_gain_of_two_equals_is_known_by_hand(known: float) -> None:
    """After the share r of the variance is known it is E max(Φ, 1 - Φ) - 1/2 = asin(√r)/π."""
    assert gain(0.0, known) == pytest.approx(asin(sqrt(known)) / pi, abs=0.02)


GRID = np.linspace(-4.0, 4.0, 2001)
STEP = GRID[1] - GRID[0]


def firsts(means: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """P(first) of independent normal scores (… × providers), by quadrature."""
    z = (GRID - means[..., None]) / spreads[..., None]
    density = np.exp(-0.5 * z**2) / (spreads[..., None] * sqrt(2 * pi))
    below = np.maximum(np.cumsum(density, axis=-1) * STEP, 1e-12)
    return (density * below.prod(axis=-2, keepdims=True) / below).sum(axis=-1) * STEP


WORLDS = {
    "a rival as good": ((0.0, -0.1, -0.3), (0.3, 0.5, 0.2)),
    "one that is first in one of 200 worlds": ((0.0, -0.05, -1.45), (0.25, 0.25, 0.5)),
    "one that is never first": ((0.0, -0.05, -3.0), (0.25, 0.25, 0.5)),
    "a leader that is unknown": ((0.1, 0.0, -0.1), (0.6, 0.1, 0.1)),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("known", [0.5, 0.99])
def test_the_gain_of_a_world_whose_truth_is_known_is_found_and_never_more_than_its_bound(world: str, known: float) -> None:
    """Independent normal scores: after a number that leaves `1 - known` of one variance, P(first) follows by quadrature."""
    means, spreads = (np.array(own) for own in WORLDS[world])
    now, left_of = firsts(means, spreads), sqrt(1 - known)
    for i in range(3):
        at, left = (np.tile(own, (200, 1)) for own in (means, spreads))
        at[:, i] += spreads[i] * sqrt(known) * NORMALS
        left[:, i] *= left_of
        truth = float(firsts(at, left).max(axis=1).mean() - now.max())
        noise, got = np.full(4000, spreads[i] ** 2 * (1 - known) / known), []
        for seed in range(4):
            scores = means[:, None] + spreads[:, None] * np.random.default_rng(seed).standard_normal((3, 4000))
            first = (scores == scores.max(axis=0)).astype(float)
            got.append(certainty_gain(first, np.ones(4000), scores[i], noise, np.random.default_rng(seed), i))
        assert float(np.mean(got)) == pytest.approx(truth, abs=0.015)
        assert truth <= gain_bound(now, i) + 0.001
        if now[i] < 0.005:
            assert max(got) < 0.005, "never proposed"


def test_a_provider_is_worth_at_most_its_chance_and_the_first_one_what_the_others_have() -> None:
    chances = np.array([0.7, 0.25, 0.004, 0.046])
    assert [gain_bound(chances, i) for i in range(4)] == pytest.approx([0.3, 0.25, 0.004, 0.046])


def test_nothing_is_gained_where_no_outcome_changes_the_choice() -> None:
    assert gain(0.0, 1e-9) == pytest.approx(0, abs=1e-3)
    assert gain(-9.0, 0.9) == pytest.approx(0, abs=1e-9)
    assert gain(9.0, 0.9, share=0.8) == pytest.approx(0, abs=1e-9), "what is open is its gate"


def test_the_close_rival_with_the_widest_interval_is_named_first() -> None:
    choice = decided(timed("steady", 0.1, 0.05), timed("wide", 0.101, 2.0), timed("far", 0.5, 2.0))
    first, *rest = found(choice)
    assert (first.provider, first.n, first.campaign) == ("wide", 6, "2026-11")
    assert "far" not in {e.provider for e in rest}
    assert all(e.gain <= e.most for e in (first, *rest)), "never more than the bound"
    assert first.trials == 3 * first.repeats and first.trials in (12, 18, 24)
    assert 0.005 <= first.gain < 0.5 and first.usd == first.trials


def test_a_decided_choice_names_none() -> None:
    assert found(decided(timed("a", 0.1, 0.5), timed("b", 0.2, 0.5))) == ()
    assert found(decided(timed("a", 0.1, 0.5))) == (), "no choice"
    assert found(decided(timed("a", 0.1, 0.5)[:1], timed("b", 0.1, 0.5)[:1])) == (), "no probability"


def test_the_price_decides_between_equal_gains_and_an_unknown_one_comes_last() -> None:
    choice = decided(timed("a", 0.1, 1.0), timed("b", 0.1002, 1.0), timed("c", 0.1001, 1.0))
    order = [e.provider for e in found(choice, {"a": 5.0, "b": 0.5, "c": None})]
    assert order == ["b", "a", "c"]
    unknown = found(choice, {"a": 5.0, "b": 0.5, "c": None})[-1]
    assert (unknown.usd, unknown.gain_per_usd, unknown.unpriced) == (None, None, "no price")


def test_the_workload_that_leaves_most_open_is_named_and_the_same_question_has_the_same_answer() -> None:
    both = preference({"time_to_first_token": 1.0}, workloads=("chat", "code"))
    steady = [own for name in "ab" for own in (timed(name, 0.1, 0.05),)]
    noisy = [timed("a", 0.1, 2.0, "code"), timed("b", 0.1005, 2.0, "code")]
    choice = decided(*steady, *noisy, weights=both)
    answer = found(choice)
    assert {e.workload for e in answer} == {"code"} and answer == found(choice)


def test_more_repeats_in_one_slot_leave_more_open_than_in_three() -> None:
    """What slots differ in stays: two repeats of each of three slots become four, six of one become twelve."""
    score = np.array(NOISE) - 1
    three, one = RepeatScatter(score, np.arange(6) % 3), RepeatScatter(score, np.zeros(6, dtype=np.intp))
    drawn = draw([three, one], [np.random.default_rng(i) for i in (1, 2)], np.random.default_rng(3), 2000)
    left = [float(d.left_by(2).mean()) for d in drawn]
    assert 0.5 < left[0] < left[1] < 1
