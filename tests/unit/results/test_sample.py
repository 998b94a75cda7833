from __future__ import annotations

import pytest

from plumbline.results.sample import CampaignSample, Observation, Series


def row(value: float | None) -> dict[str, object]:
    return {"metric": "step_time", "statistic": "median", "phase": "steady", "unit": "s", "direction": "lower_is_better", "slot": "02:00",
            "repeat": 1, "value": value, "ci_low": None}  # fmt: skip


def test_plain_data_becomes_a_sample_and_absent_values_stay_out() -> None:
    data = {
        "series_key": "k",
        "campaign_id": "c",
        "simulated": False,
        "observations": [row(0.5), row(None)],
        "environments": [{"cpu.usable": 2}],
        "outcomes": [{"trial_id": "t", "slot": "02:00", "repeat": 1, "attempt": 1, "status": "valid", "failure_class": None}],
        "planned": 2,
    }
    found = CampaignSample.of(data)
    assert [o.value for o in found.observations] == [0.5]
    assert found.outcomes[0].status == "valid" and found.planned == 2


def test_a_number_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"^step_time median .*steady.*02:00.*\b1\b.*nan"):
        Observation("step_time", "median", "steady", "s", "lower_is_better", "02:00", 1, float("nan"))
    with pytest.raises(ValueError, match='unknown metric "speed"'):
        Observation("speed", "median", "steady", "s", "lower_is_better", "02:00", 1, 1.0)


def test_series_key_parts() -> None:
    found = Series.parse("training/gpt@3/h1/torch/p/r/i")
    assert (found.workload, found.version, found.provider, found.instance_type) == ("gpt", "3", "p", "i")
    with pytest.raises(ValueError, match="training/gpt/p"):
        Series.parse("training/gpt/p")
