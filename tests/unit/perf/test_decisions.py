"""The calibration of decisions, in small: the bookkeeping worked by hand, and some hundred simulated campaigns."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from decision_worlds import World, any_world, campaign, preference
from decisions import Made, binned, decisions, markdown, missed, tables

from plumbline.analysis.decisions.decide import decide

WORLD = World(providers=3, repeats=6, slots=3, slot_noise="moderate", noise=0.03, unequal=False, gate=False)


def made(stated: float, right: bool) -> Made:
    return Made(WORLD, stated, stated, right)


def test_decisions_are_counted_by_what_they_stated() -> None:
    bins = binned([0.81, 0.85, 0.9, 1.0], [True, False, True, True], ((0.8, 0.9), (0.9, 1.0), (0.2, 0.3)))
    assert [(b.n, b.stated, b.right) for b in bins] == [(2, pytest.approx(0.83), 0.5), (2, 0.95, 1.0), (0, None, None)]


@pytest.mark.parametrize(("right", "fires"), [(70, True), (76, False), (84, False), (90, True)])
def test_a_promise_that_is_off_by_more_than_five_points_is_missed(right: int, fires: bool) -> None:
    told = missed([made(0.8, i < right) for i in range(100)])
    assert (told is not None) is fires


def test_a_promise_that_nobody_made_is_missed() -> None:
    assert missed([made(0.5, True)]) is not None


def test_the_truth_of_a_campaign_is_what_its_repeats_scatter_around() -> None:
    rng = np.random.default_rng(1)
    quiet = World(providers=4, repeats=9, slots=3, slot_noise="none", noise=1e-6, unequal=False, gate=True, gaps=0.2)
    for _ in range(20):
        truth, trials = campaign(quiet, rng)
        ranking = decide("t", "inference", preference(quiet), trials, draws=0).ranking
        eligible = [r.provider for r in ranking if r.eligible]
        assert sorted(eligible, key=lambda p: -truth.scores[p]) == eligible
        assert {p for p, kept in truth.keeps.items() if kept} == set(eligible)
        assert truth.first(eligible) == (eligible[0] if eligible else None)


def test_worlds_are_of_every_kind() -> None:
    rng = np.random.default_rng(2)
    drawn = [any_world(rng) for _ in range(300)]
    assert {(w.providers, w.slots) for w in drawn} == {(p, s) for p in (2, 3, 5) for s in (1, 3)}
    assert {w.slot_noise for w in drawn} == {"none", "moderate", "large"}


def test_probabilities_come_true() -> None:
    """Over 200 campaigns: what is stated is right that often on the whole, and where it is nearly sure nearly always."""
    found = decisions(200, seed=5)
    stated, right = [m.stated for m in found], [m.right for m in found]
    assert np.mean(stated) == pytest.approx(np.mean(right), abs=0.08)
    sure, unsure = binned(stated, right, ((0.9, 1.0), (0.5, 0.9)))
    assert sure.right is not None
    assert sure.right > 0.9
    assert unsure.right == pytest.approx(unsure.stated, abs=0.15)
    # A plain bootstrap of the same trials is too sure: what it states misses the truth by more.
    plain = abs(float(np.mean([m.plain for m in found])) - float(np.mean(right)))
    assert plain > abs(float(np.mean(stated)) - float(np.mean(right)))
    page = markdown(tables(found, {"as drawn": found}, 5))
    assert f"{len(found)} simulated decisions" in page
    assert "95% to 100%" in page
