import math

import numpy as np
import pytest

from plumbline.analysis.drift.change_detection import detect_changes


def series(points: int, noise: float = 0.01, seed: int = 3) -> np.ndarray:
    return 100 * np.exp(np.random.default_rng(seed).normal(0, noise, points))


def test_a_step_is_found_where_it_is_with_its_size() -> None:
    values = series(40)
    values[25:] *= 1.08

    (found,) = detect_changes(values.tolist())

    assert (found.kind, found.index) == ("step", 25)
    assert found.effect == pytest.approx(0.08, abs=0.01)
    assert found.before == pytest.approx(100, rel=0.01)
    assert found.after == pytest.approx(108, rel=0.01)
    assert found.p < 1e-6


def test_a_step_shows_once_four_points_stand_behind_it_and_from_then_on() -> None:
    values = series(40)
    values[25:] *= 1.1

    shown = {seen: [c.index for c in detect_changes(values[:seen].tolist())] for seen in range(12, 41)}

    assert all(shown[seen] == [] for seen in range(12, 29))
    assert all(shown[seen] == [25] for seen in range(29, 41))


def test_two_steps_there_and_back() -> None:
    values = series(40)
    values[12:25] *= 0.9

    assert [c.index for c in detect_changes(values.tolist())] == [12, 25]


def test_a_ramp_is_one_change_that_begins_where_the_slope_does() -> None:
    values = series(60, 0.005)
    values[30:] *= np.exp(np.linspace(0.0, 0.2, 30))

    (found,) = detect_changes(values.tolist())

    assert found.kind == "ramp"
    assert abs(found.index - 30) <= 3
    assert found.effect == pytest.approx(math.expm1(0.2), abs=0.03)


def test_a_short_ramp_that_hides_from_the_steps_is_found_by_its_slope() -> None:
    values = series(12, 0.002)
    values[4:] *= np.exp(np.linspace(0.02, 0.16, 8))

    (found,) = detect_changes(values.tolist())

    assert (found.kind, found.index) == ("ramp", 4)
    assert found.before == pytest.approx(100, rel=0.01)
    assert found.after == pytest.approx(117.4, rel=0.01)
    assert found.p < 1e-6


@pytest.mark.parametrize("wild", [1, 2, 3])
def test_a_few_wild_points_at_the_end_are_no_slope(wild: int) -> None:
    values = series(24, 0.002)
    values[-wild:] *= 1.2

    assert detect_changes(values.tolist()) == ()


def test_a_step_is_no_ramp_in_a_long_series() -> None:
    values = series(1000)
    values[500:] *= 1.05

    (found,) = detect_changes(values.tolist())

    assert (found.kind, found.index) == ("step", 500)


@pytest.mark.parametrize("spike", [1.1, 1.5, 0.3])
def test_spikes_are_no_change(spike: float) -> None:
    values = series(40)
    values[[9, 20, 39]] *= spike

    assert detect_changes(values.tolist()) == ()


def test_a_spike_after_a_step_does_not_hide_it() -> None:
    values = series(24)
    values[16:] *= 1.1
    values[20] *= 0.6

    assert [c.index for c in detect_changes(values.tolist())] == [16]


def test_two_modes_that_alternate_are_no_change() -> None:
    random = np.random.default_rng(5)
    values = series(60, 0.002) * np.where(random.random(60) < 0.4, 1.12, 1.0)

    assert detect_changes(values.tolist()) == ()


def test_a_step_below_the_floor_is_not_told_and_above_it_is() -> None:
    values = series(60, 0.002)
    values[30:] *= 1.03

    assert detect_changes(values.tolist(), floor=0.05) == ()
    assert [c.index for c in detect_changes(values.tolist(), floor=0.02)] == [30]


def test_missing_points_keep_their_places() -> None:
    values: list[float | None] = series(40).tolist()
    values[25:] = [v and v * 1.1 for v in values[25:]]
    values[3], values[10], values[30] = None, math.nan, math.inf

    assert [c.index for c in detect_changes(values)] == [25]


def test_eleven_points_say_nothing_and_twelve_do() -> None:
    values = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8, 120.0, 120.1, 119.9, 120.2, 120.0, 120.1]

    assert detect_changes([*values[:-1], None]) == ()
    assert [c.index for c in detect_changes(values)] == [6]


@pytest.mark.parametrize("values", [[0.0] * 20, [5.0] * 20, [], [None] * 20])
def test_nothing_moves_in_equal_or_empty_series(values: list[float | None]) -> None:
    assert detect_changes(values) == ()


def test_a_series_with_zeros_is_judged_by_its_magnitude() -> None:
    random = np.random.default_rng(1)
    values = [0.0, *random.normal(10, 0.1, 19), *random.normal(12, 0.1, 20)]

    (found,) = detect_changes(values)

    assert found.index == 20
    assert found.after == pytest.approx(12, rel=0.02)


@pytest.mark.parametrize("floor", [0.0, -0.1, math.nan, math.inf])
def test_a_floor_that_is_no_relative_change_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match=r"^floor: "):
        detect_changes([1.0] * 20, floor=floor)


@pytest.mark.parametrize("wild", [0.05, 0.1, 0.2])
def test_two_wild_newest_points_turn_no_small_step_into_a_ramp(wild: float) -> None:
    random = np.random.default_rng(1)
    judged = alarms = 0
    for _ in range(100):
        before, after = random.integers(12, 25), random.integers(8, 25)
        y = random.normal(0, 0.003, before + after + 2)
        y[before:] += math.log(1.02)
        known = [c.index for c in detect_changes((100 * np.exp(y[:-2])).tolist())]
        y[-2:] += wild
        if len(known) == 1:
            found = detect_changes((100 * np.exp(y)).tolist())
            judged += 1
            alarms += [(c.kind, c.index) for c in found] != [("step", known[0])]

    assert judged >= 80
    assert alarms <= 0.02 * judged


def test_a_step_out_of_one_sided_noise_that_falls_is_dated_once() -> None:
    random = np.random.default_rng(11)
    y = 0.08 * random.random(90) + 0.5 * (random.random(90) < 0.25) - 0.004 * np.arange(90)
    y[59:] = y[40:59].mean() - 0.15 + math.log(0.75) + random.normal(0, 0.02, 31)

    told = {(c.kind, c.index) for seen in range(64, 91) for c in detect_changes((60 * np.exp(y[:seen])).tolist())}

    assert ("step", 59) in told
    assert {kind for kind, _ in told} == {"step"}
