from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plumbline.analysis.drift.compare import compare
from plumbline.analysis.drift.history_verdicts import SeriesHistory, apply_history, row_key, rows_needing_history
from plumbline.findings.campaign import findings_of

KEY = ("step_time", "median", "steady")
CAMPAIGNS = [f"c{i:02}" for i in range(24)]


def levels(step: float, at: int, n: int = 24, spike: bool = False, slope: float = 0.0) -> list[float | None]:
    rng = np.random.default_rng(4)
    return [float(np.exp(slope * i + rng.normal(0, 0.003)) * (1 + step if (i == at if spike else i >= at) else 1)) for i in range(n)]


@pytest.fixture
def doubted(sample: Any, rules: Any, limits: Any) -> Any:
    """Two repeats against two, 6 % slower: past the threshold and never significant."""
    return compare([sample("b", {"step_time": [1.0, 1.003]})], sample("c23", {"step_time": [1.06, 1.063]}), rules=rules, limits=limits)


def test_a_doubt_is_settled_by_a_series_that_changed_for_good(doubted: Any) -> None:
    assert rows_needing_history(doubted, several_baselines=False) == [KEY]
    settled = apply_history(doubted, SeriesHistory(CAMPAIGNS, {KEY: levels(0.06, 16)}, {}))
    assert (doubted.verdict, settled.verdict) == ("suspected", "regressed")
    (found,) = findings_of(settled)
    assert "c16" in found.explanation


@pytest.mark.parametrize("values", [levels(0.06, 23, spike=True), levels(0.0, 0), levels(-0.06, 16), levels(0.06, 5, n=9)])
def test_a_spike_a_quiet_series_another_direction_and_a_short_one_settle_nothing(doubted: Any, values: list[float | None]) -> None:
    assert apply_history(doubted, SeriesHistory(CAMPAIGNS[-len(values) :], {KEY: values}, {})).verdict == "suspected"


def test_creep_past_baselines_that_were_accepted_one_by_one_is_told_against_the_oldest(sample: Any, rules: Any, limits: Any) -> None:
    quiet = [1.100, 1.104, 1.098, 1.102, 1.099]
    same = compare([sample("b", {"step_time": quiet})], sample("c23", {"step_time": quiet[::-1]}), rules=rules, limits=limits)
    assert rows_needing_history(same, several_baselines=False) == [] and rows_needing_history(same, several_baselines=True) == [KEY]
    (row,) = apply_history(same, SeriesHistory(CAMPAIGNS, {KEY: levels(0, 0, slope=0.004)}, {KEY: 1.0})).rows
    assert row.verdict == "regressed" and row.crept and row.effect == pytest.approx(0.09, abs=0.02)
    (still,) = apply_history(same, SeriesHistory(CAMPAIGNS, {KEY: levels(0, 0)}, {KEY: 1.0})).rows
    assert still.verdict == "unchanged" and row_key(still) == KEY
