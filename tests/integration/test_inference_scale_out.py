"""The phase `scale_out` against a hosted model whose capacity rises a set time after the load did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.openai_server import Hosted, Plan
from tests.integration.test_inference import measure
from tests.integration.test_inference_hosted import trial_on

from plumbline.harness.measurement import Measurement
from plumbline.results import MetricRow

pytestmark = pytest.mark.exclusive
DELAY_S = 10.0


def scaled(workdir: Path, hold: str, **plan: Any) -> Measurement:
    """4/s for `hold`, which the server holds, then 40/s for `hold`; a first token takes 10 ms, or 2 s until the server has scaled."""
    phases = [
        {"name": "steady", "arrivals": {"constant": {"rate": "4/s"}}, "duration": "1s"},
        {"name": "scale_out", "rates": ["4/s", "40/s"], "hold": hold, "down": "1s", "goodput": "90%"},
    ]
    with Hosted(Plan(first_s=0.01, **plan)) as hosted:
        declare = {"phases": phases, "acceptance": [], "slo": {"time_to_first_token": "0.5s"}}
        return measure(trial_on(f"{hosted.url}/v1", "openai", **declare), workdir)


def row(result: Measurement, metric: str, statistic: str = "value") -> MetricRow:
    return next(r for r in result.metrics if (r.phase, r.metric, r.statistic) == ("scale_out", metric, statistic))


def test_a_set_scaling_delay_is_measured_within_five_percent(tmp_path: Path) -> None:
    result = scaled(tmp_path, "14s", burst=6, scales_s=DELAY_S)
    took = row(result, "time_to_scale_out", "max")
    assert took.value == pytest.approx(DELAY_S, rel=0.05)
    assert took.value is not None and took.ci_low is not None and took.ci_low < took.value == took.ci_high
    # 40/s for the delay of 560 requests.
    assert row(result, "slo_miss_ratio").value == pytest.approx(DELAY_S / 14, rel=0.1)
    assert row(result, "error_rate").value == 0
    at = {event.name: event.monotonic_s or 0.0 for event in result.events}
    moments = [at[f"scale_out_{name}"] for name in ("started", "stepped_up", "stepped_down", "ended")]
    assert moments == sorted(moments) and moments[2] - moments[1] == pytest.approx(14)
    evidence = json.loads(next(e.path for e in result.evidence if e.kind == "scale_out").read_text())
    assert [step["took_s"] for step in evidence["steps"]] == [0, took.value]


@pytest.mark.full  # the one above drives the same path; what its verdict makes of the steps is test_scale_out.py's
def test_a_server_that_never_scales_has_no_time(tmp_path: Path) -> None:
    result = scaled(tmp_path, "6s", burst=6)
    took = row(result, "time_to_scale_out", "max")
    assert took.value is None and took.reason is not None and "did not hold again within 6s" in took.reason
    assert "no_scale_out" in [judgement.reason.code for judgement in result.judgements]


@pytest.mark.full
def test_a_server_that_holds_every_step_takes_no_time(tmp_path: Path) -> None:
    result = scaled(tmp_path, "6s")
    took = row(result, "time_to_scale_out", "max")
    assert (took.value, took.method) == (0, "the SLO did not break")
    assert row(result, "slo_miss_ratio").value == 0
