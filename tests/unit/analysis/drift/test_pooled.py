"""One verdict for each cause: providers are the witnesses, a move of the whole fleet blames nobody, and looks share one level."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone

import pytest

from plumbline.analysis.drift.environment import FactReading, fact_changes
from plumbline.analysis.drift.pooled import SeriesShift, causes_of, estimate_shift, pooled_effect, standard_error


def shifts(providers: range, change: float, *, series: int = 13, mood: float = 0.004, seed: int = 1) -> list[SeriesShift]:
    rng = random.Random(f"{seed} {providers}")
    moods = {p: rng.gauss(math.log1p(change), mood) for p in providers}
    return [
        SeriesShift(f"p{p}", f"w{w}/p{p}", f"w{w}", "training", "2026-10", moods[p] + rng.gauss(0, 0.005), 0.005, 0.05)
        for p in providers
        for w in range(series)
    ]


def test_a_small_step_on_six_providers_is_one_slower_verdict_with_all_its_series() -> None:
    found = pooled_effect(shifts(range(6), 0.067), shifts(range(6, 50), 0.0))
    assert found is not None and found.verdict == "regressed"
    assert found.effect == pytest.approx(0.067, abs=0.01) and found.ci_low < 0.067 < found.ci_high
    assert len(found.moved) == 78 and found.providers == tuple(f"p{n}" for n in range(6)) == found.moved_providers


def test_a_harmless_change_is_unchanged_and_a_faster_one_improved() -> None:
    harmless, faster = (pooled_effect(shifts(range(6), change), shifts(range(6, 50), 0.0)) for change in (0.0, -0.06))
    assert harmless is not None and harmless.verdict == "unchanged"
    assert faster is not None and faster.verdict == "improved" and faster.effect < 0


def test_a_move_of_the_whole_fleet_blames_no_change() -> None:
    found = pooled_effect(shifts(range(6), 0.06), shifts(range(6, 50), 0.06))
    assert found is not None and found.verdict == "unchanged" and abs(found.effect) < 0.01


def test_thirteen_series_of_one_provider_are_not_thirteen_proofs() -> None:
    one, six = (pooled_effect(shifts(range(n), 0.03), shifts(range(n, 50), 0.0, mood=0.015)) for n in (1, 6))
    assert one is not None and one.verdict != "regressed"
    assert six is not None and six.p < one.p


def test_a_later_look_asks_for_more() -> None:
    early, late = (pooled_effect(shifts(range(2), 0.025), shifts(range(2, 50), 0.0), look) for look in (1, 40))
    assert early is not None and late is not None
    assert (early.verdict, late.verdict) == ("regressed", "unchanged")


def test_one_series_is_not_pooled() -> None:
    assert pooled_effect(shifts(range(1), 0.2, series=1), []) is None


def test_a_shift_is_positive_where_worse_and_needs_values_with_logarithms() -> None:
    slower, df = estimate_shift([100.0, 100.0], [107.0, 107.0], 1), 2
    assert slower == pytest.approx((math.log(1.07), 0.0, df))
    rate = estimate_shift([100.0, 100.0], [93.0, 93.0], -1)
    assert rate is not None and rate[0] == pytest.approx(-math.log(0.93))
    assert estimate_shift([0.0], [1.0], 1) is None and estimate_shift([], [1.0], 1) is None


def test_two_equal_readings_do_not_prove_a_noiseless_series() -> None:
    own = standard_error(0.0, 4, [0.02, 0.02, 0.02], 0.01, (3, 3))
    assert own == pytest.approx(0.02 * math.sqrt(0.5) * math.sqrt(2 / 3))


def test_values_that_came_together_are_one_cause_named_by_the_driver() -> None:
    start = datetime(2026, 9, 1, tzinfo=timezone.utc)
    readings = [
        FactReading(provider, f"2026-{9 + n:02d}", start + timedelta(days=30 * n), fact, values[n])
        for fact, values in (("cuda.version", ("12.4", "12.8")), ("driver.version", ("550", "570")))
        for provider in ("a", "b", "c")
        for n in (0, 1)
        if provider != "c" or n == 0
    ]
    (cause,) = causes_of(fact_changes(readings))
    assert cause.facts == (("driver.version", "570"), ("cuda.version", "12.8"))
    assert (cause.came, cause.began, cause.left) == ({"a": "2026-10", "b": "2026-10"}, "2026-10", ("c",))


def test_one_wild_provider_accuses_nobody_whether_it_has_the_change_or_not() -> None:
    wild, quiet = shifts(range(1), 0.15), shifts(range(1, 3), 0.0)
    touched = pooled_effect([*wild, *quiet], shifts(range(3, 50), 0.0))
    assert touched is not None and touched.verdict != "regressed"
    with_a_stray = pooled_effect(shifts(range(2), 0.05), [*shifts(range(2, 49), 0.0), *shifts(range(49, 50), 0.3)])
    assert with_a_stray is not None and with_a_stray.verdict == "regressed"
