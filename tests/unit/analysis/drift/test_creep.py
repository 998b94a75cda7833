import math

import numpy as np
import pytest

from plumbline.analysis.drift.creep import detect_creep


def series(points: int, noise: float = 0.01, seed: int = 3) -> np.ndarray:
    return 100 * np.exp(np.random.default_rng(seed).normal(0, noise, points))


def test_a_slow_creep_is_seen_against_the_oldest_baseline() -> None:
    values = series(36, 0.004) * np.exp(0.001 * np.arange(36))

    crept = detect_creep(values.tolist(), 100.0)

    assert crept is not None
    assert crept.effect == pytest.approx(0.035, abs=0.01)
    assert crept.slope == pytest.approx(0.001, abs=0.0003)
    assert crept.p < 0.001


def test_no_creep_without_a_trend_or_without_a_distance() -> None:
    flat = series(36)
    rising = series(36, 0.004) * np.exp(0.001 * np.arange(36))

    assert detect_creep(flat.tolist(), 100.0) is None
    assert detect_creep(flat.tolist(), 80.0) is None  # far away, but going nowhere
    assert detect_creep(rising.tolist(), 103.5) is None  # a trend that came back to the baseline
    assert detect_creep(rising[:11].tolist(), 90.0) is None


@pytest.mark.parametrize("oldest", [0.0, -1.0, math.nan])
def test_a_creep_needs_levels_that_have_a_ratio(oldest: float) -> None:
    with pytest.raises(ValueError, match="oldest_accepted"):
        detect_creep([1.0] * 20, oldest)
    with pytest.raises(ValueError, match="positive values only"):
        detect_creep([1.0, 0.0] * 10, 1.0)
