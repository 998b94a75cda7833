"""Two single trials: their verdict comes from what repeats of the series scatter, and never accuses."""

from __future__ import annotations

import pytest

from plumbline.analysis.drift.trial_comparison import compare_trials

# A series whose step time scatters by about one per cent between repeats.
CALM = [[0.100, 0.101, 0.099, 0.100], [0.101, 0.100, 0.102, 0.100]]


@pytest.fixture
def history(sample):
    return [sample(f"c{i}", {"step_time": values}) for i, values in enumerate(CALM)]


def verdict(sample, history, rules, limits, before, after):
    found = compare_trials(
        sample("old", {"step_time": [before]}), sample("new", {"step_time": [after]}), history, rules=rules, limits=limits
    )
    return next(row for row in found.rows if row.metric == "step_time")


def test_a_difference_inside_the_scatter_is_unchanged_and_says_what_it_could_see(sample, history, rules, limits):
    row = verdict(sample, history, rules, limits, 0.100, 0.102)
    assert row.verdict == "unchanged"
    assert row.mde is not None and row.mde > 0.02


def test_a_difference_beyond_the_scatter_is_suspected_and_never_more(sample, history, rules, limits):
    row = verdict(sample, history, rules, limits, 0.100, 0.150)
    assert row.verdict == "suspected"


def test_a_series_with_one_other_trial_cannot_tell(sample, rules, limits):
    lonely = [sample("c0", {"step_time": [0.1]})]
    assert verdict(sample, lonely, rules, limits, 0.100, 0.101).verdict == "insufficient_data"


def test_more_than_one_trial_is_refused(sample, history, rules, limits):
    with pytest.raises(ValueError, match="expected one"):
        compare_trials(sample("old", {"step_time": [0.1, 0.2]}), sample("new", {"step_time": [0.1]}), history, rules=rules, limits=limits)


def test_campaigns_that_lie_apart_widen_what_counts_as_unchanged(sample, rules, limits):
    apart = [sample("c0", {"step_time": [0.100, 0.101]}), sample("c1", {"step_time": [0.108, 0.109]}), sample("c2", {"step_time": [0.104]})]
    assert verdict(sample, apart, rules, limits, 0.100, 0.109).verdict == "unchanged"
