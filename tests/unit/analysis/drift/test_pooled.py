"""One verdict for each cause: providers are the witnesses, a move of the whole fleet blames nobody, and looks share one level."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from plumbline.analysis.drift.environment import FactReading, fact_changes
from plumbline.analysis.drift.pooled import SeriesShift, causes_of, cloud_effect, estimate_shift, pooled_effect, standard_error
from plumbline.words.causes import judge_effect


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


def of_cloud(name: str, own: list[SeriesShift]) -> list[SeriesShift]:
    return [replace(s, group=name) for s in own]


def clouds(*changes: float, regions: int = 6) -> list[SeriesShift]:
    """One cloud of so many regions for each change."""
    return [
        s for n, change in enumerate(changes) for s in of_cloud(f"c{n}", shifts(range(n * regions, (n + 1) * regions), change, series=5))
    ]


def test_six_regions_of_one_cloud_do_not_convict_the_driver_that_came_there() -> None:
    fleet = clouds(0.06, *[0.0] * 7)
    touched, untouched = ([s for s in fleet if (s.group == "c0") is had] for had in (True, False))
    driver = pooled_effect(touched, untouched)
    assert driver is not None and driver.verdict == "insufficient_data" and driver.clouds == 1
    assert "second cloud" in judge_effect(driver).decides and judge_effect(driver).verdict == "not_shown"
    as_strangers = pooled_effect([replace(s, group="") for s in touched], [replace(s, group="") for s in untouched])
    assert as_strangers is not None and as_strangers.verdict == "regressed"
    cloud = cloud_effect(touched, untouched, rivals=8)
    assert cloud is not None and cloud.verdict == "regressed" and cloud.moved_providers == tuple(f"p{n}" for n in range(6))
    other = [s for s in untouched if s.group == "c3"]
    innocent = cloud_effect(other, [s for s in fleet if s.group not in ("c3",)], changed={"c0"}, rivals=8)
    assert innocent is not None and innocent.verdict not in ("regressed", "improved")


def test_a_driver_at_three_clouds_is_convicted_and_none_of_them_is() -> None:
    fleet = clouds(0.06, 0.06, 0.06, *[0.0] * 5)
    has = {"c0", "c1", "c2"}
    touched, untouched = ([s for s in fleet if (s.group in has) is had] for had in (True, False))
    driver = pooled_effect(touched, untouched)
    assert driver is not None and (driver.verdict, driver.clouds, driver.undecided) == ("regressed", 3, None)
    own, others = ([s for s in fleet if (s.group == "c0") is mine] for mine in (True, False))
    cloud = cloud_effect(own, others, changed={"c1", "c2"}, rivals=8)
    assert cloud is not None and cloud.verdict == "insufficient_data" and "moved the same way" in judge_effect(cloud).missing


def test_one_of_three_clouds_that_moved_does_not_convict_the_driver() -> None:
    fleet = clouds(0.08, 0.0, 0.0, *[0.0] * 5)
    touched, untouched = ([s for s in fleet if (s.group in ("c0", "c1", "c2")) is had] for had in (True, False))
    driver = pooled_effect(touched, untouched)
    assert driver is not None and driver.verdict not in ("regressed", "improved")


def test_regions_without_the_driver_are_their_clouds_own_control() -> None:
    """Each cloud moves by itself, its regions with the driver 6 % more."""
    fleet = [(clouds(move + extra)[0:15], n) for n, move in enumerate((0.05, -0.04, 0.03)) for extra in (0.06, 0.0)]
    touched: list[SeriesShift] = []
    untouched: list[SeriesShift] = []
    for i, (own, cloud) in enumerate(fleet):
        half = [replace(s, group=f"c{cloud}", provider=f"{s.provider}-{i}", series_key=f"{s.series_key}-{i}") for s in own]
        (untouched if i % 2 else touched).extend(half)
    driver = pooled_effect(touched, untouched)
    assert driver is not None and driver.verdict == "regressed" and driver.effect == pytest.approx(0.06, abs=0.02)


def test_a_fleet_without_another_cloud_cannot_tell() -> None:
    alone = pooled_effect(clouds(0.08, 0.08), [])
    assert alone is not None and alone.verdict == "insufficient_data" and "no cloud without it" in judge_effect(alone).missing
    moved = pooled_effect(clouds(0.08, 0.08), of_cloud("c9", shifts(range(90, 96), 0.05, series=5)))
    assert moved is not None and moved.verdict == "insufficient_data" and "moved too" in judge_effect(moved).missing
    only = cloud_effect(clouds(0.08), [])
    assert only is not None and only.verdict == "insufficient_data"
