"""A series' state says what could be seen: a change below its threshold is a move, and no state hides it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from plumbline.analysis.drift.compare import compare
from plumbline.analysis.drift.series_state import STATES, SeriesState, state_of
from plumbline.words.drift import state_text

BEFORE = [6.02e-3, 6.05e-3, 6.08e-3, 6.06e-3, 6.07e-3]


def state(sample: Any, rules: Any, limits: Any, factor: float, noise: float = 0.0) -> SeriesState:
    after = [value * factor * (1 + noise * sign) for value, sign in zip(BEFORE, (-2, 1, 0, -1, 2), strict=True)]
    ttft = "time_to_first_token"
    return state_of(
        compare([sample("a", {ttft: BEFORE}), sample("b", {ttft: BEFORE})], sample("c", {ttft: after}), rules=rules, limits=limits)
    )


@pytest.mark.parametrize(("factor", "name"), [(1.0, "steady"), (1.093, "moved"), (0.92, "moved"), (1.2, "drifted")])
def test_a_change_that_was_seen_is_named_also_below_the_threshold(sample: Any, rules: Any, limits: Any, factor: float, name: str) -> None:
    assert state(sample, rules, limits, factor).state == name


def test_a_move_is_told_with_its_size_and_the_threshold(sample: Any, rules: Any, limits: Any) -> None:
    assert state_text(state(sample, rules, limits, 1.093)) == "moved +9.3 %, under your 10 % (time to first token)"


def test_what_the_repeats_cannot_show_is_no_move(sample: Any, rules: Any, limits: Any) -> None:
    assert state(sample, rules, limits, 1.05, noise=0.05).state in ("steady", "cannot_tell")


def test_few_series_without_a_change_move(noisy: Any, rules: Any, limits: Any) -> None:
    rng, levels = np.random.default_rng(20261127), {"time_to_first_token": 0.08, "output_token_throughput": 90.0}
    moved = sum(
        state_of(
            compare([noisy(rng, f"b{k}", 5, 0.01, levels) for k in range(3)], noisy(rng, "c", 5, 0.01, levels), rules=rules, limits=limits)
        ).state
        == "moved"
        for _ in range(300)
    )
    assert moved <= 3


def test_a_stored_state_is_read_back() -> None:
    now = SeriesState("moved", "time_to_first_token", 0.093, 0.072, None, 0.1)
    assert SeriesState.of({"campaign_id": "2026-01", **asdict(now)}) == now


def test_shares_move_in_points() -> None:
    share = SeriesState("moved", "error_rate", 0.005, 0.002, None, 0.01, "difference", "ratio")
    assert state_text(share) == "moved +0.5 points, under your 1.0 points (error rate)"
    assert [state_text(replace(share, state=name)).split()[0] for name in STATES] == ["drifted:", "suspected:", "moved", "cannot", "steady"]
