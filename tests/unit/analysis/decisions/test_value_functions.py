"""Value functions on numbers that are zero, missing, free, or beyond what is declared."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.analysis.decisions.value_functions import FLOOR, log_values, log_worths, worth
from plumbline.declarations.teams import LinearValue
from plumbline.metrics import METRICS


def values(metric: str, *numbers: float, function: LinearValue | None = None) -> list[float]:
    found, known = np.array(numbers), METRICS[metric]
    best = float(np.nanmax(worth(known, found)))
    return [round(float(v), 6) for v in np.exp(log_values(known, function, log_worths(known, found, best), best))]


def test_ratios_to_the_best() -> None:
    assert values("time_to_first_token", 0.1, 0.2, 0.4) == [1.0, 0.5, 0.25]
    assert values("output_token_throughput", 100, 50, 0) == [1.0, 0.5, FLOOR]
    assert values("error_rate", 0.0, 0.5, 1.0) == [1.0, 0.5, FLOOR]
    assert values("cost_per_1k_requests", 0.0, 3.0) == [1.0, FLOOR]
    assert values("output_token_throughput", 0, 0) == [1.0, 1.0]


def test_lines_between_worst_and_best() -> None:
    latency = LinearValue(worst="2s", best="200ms")
    assert values("time_to_first_token", 0.1, 0.2, 1.1, 2.0, 9.0, function=latency) == [1.0, 1.0, 0.5, FLOOR, FLOOR]
    rate = LinearValue(worst="100tokens/s", best="300tokens/s")
    assert values("output_token_throughput", 100, 200, 400, function=rate) == [FLOOR, 0.5, 1.0]
    errors = LinearValue(worst="5%", best="0%")
    assert values("error_rate", 0.0, 0.025, 0.05, function=errors) == [1.0, 0.5, FLOOR]


def test_lines_in_multiples_of_the_best() -> None:
    money = LinearValue(worst="3x best")
    assert (
        values("cost_per_1k_requests", 10, 20, 30, function=money)
        == values("cost_per_1k_requests", 1, 2, 3, function=money)
        == [1.0, 0.5, FLOOR]
    )
    assert values("cost_per_1k_requests", 10, 15, 20, function=LinearValue(worst="2.5x best", best="1.5x best")) == [1.0, 1.0, 0.5]
    assert values("output_token_throughput", 100, 60, 20, function=LinearValue(worst="0.2x best")) == [1.0, 0.5, FLOOR]


def test_what_is_missing_stays_missing() -> None:
    assert np.isnan(log_worths(METRICS["time_to_first_token"], np.array([0.1, np.nan]), 10.0)).tolist() == [False, True]


def test_each_state_of_the_world_has_its_own_best() -> None:
    found = log_worths(METRICS["time_to_first_token"], np.array([[0.1, 0.4], [0.2, 0.2]]), 10.0)
    assert np.exp(log_values(METRICS["time_to_first_token"], None, found, 10.0)) == pytest.approx(np.array([[1.0, 0.5], [0.5, 1.0]]))
