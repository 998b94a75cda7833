from __future__ import annotations

import pytest

from plumbline.results.sample import RepeatValue, Series


def test_a_number_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"^step_time median .*steady.*02:00.*\b1\b.*nan"):
        RepeatValue("step_time", "median", "steady", "s", "lower_is_better", "02:00", 1, float("nan"))
    with pytest.raises(ValueError, match='"speed" is in furlongs, lower_is_better; expected a unit'):
        RepeatValue("speed", "median", "steady", "furlongs", "lower_is_better", "02:00", 1, 1.0)


def test_series_key_parts() -> None:
    found = Series.parse("training/gpt@3/h1/torch/p/r/i")
    assert (found.workload, found.version, found.provider, found.instance_type) == ("gpt", "3", "p", "i")
    with pytest.raises(ValueError, match="training/gpt/p"):
        Series.parse("training/gpt/p")
