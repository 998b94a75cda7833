from __future__ import annotations

from dataclasses import replace

import pytest
from tests.golden import Golden

from plumbline.analysis.drift.comparison import Comparison, LastingChange, MetricComparison, Reliability
from plumbline.analysis.drift.creep import Creep
from plumbline.metrics.formatting import format_change, format_probe_name
from plumbline.words import drift

ROW = MetricComparison("step_time", "median", "steady", "s", "lower_is_better", "lead", 5, 5, effect=0.079, ci_low=0.068, ci_high=0.091)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.91, "+91 %"), (-0.082, "−8.2 %"), (0.0, "+0.0 %"), (-0.0001, "+0.0 %"), (0.0996, "+10 %"), (12.5, "+1250 %")],
)
def test_percent(fraction: float, text: str) -> None:
    assert format_change(fraction) == text


def test_shares_move_by_points_and_zero_baselines_by_units() -> None:
    share = replace(ROW, metric="error_rate", unit="ratio", scale="difference", effect=0.02)
    assert drift.format_effect(share) == "+2.0 points"
    assert drift.format_effect(replace(ROW, scale="difference", effect=-0.5)) == "−0.5 s"


def test_intervals_doubts_and_probes_in_words(golden: Golden) -> None:
    doubt = replace(ROW, verdict="suspected", repeats_needed=1, repeats_where="candidate")
    texts = [
        drift.format_interval(ROW, 0.95),
        drift.format_interval(replace(ROW, ci_low=None, n_baseline=2, n_candidate=2), 0.95),
        drift.format_repeats_needed(doubt),
        drift.format_repeats_needed(replace(doubt, repeats_needed=7, repeats_where="both")),
        drift.format_repeats_needed(replace(doubt, repeats_needed=None)),
        *(format_probe_name(metric) for metric in ("matmul_tflops", "matmul_tflops_bf16", "host_to_device_bandwidth")),
    ]
    golden("analysis.comparison", "\n".join(texts))
    assert drift.format_repeats_needed(replace(ROW, verdict="unchanged")) == ""


@pytest.mark.parametrize(
    ("named", "parts"),
    [
        ("step_time", ("step_time", None, "steady")),
        ("p95 request_latency", ("request_latency", "p95", "steady")),
        ("matmul_tflops in environment", ("matmul_tflops", None, "environment")),
        ("p99 time_to_first_token in burst", ("time_to_first_token", "p99", "burst")),
    ],
)
def test_a_name_can_be_taken_apart_again(named: str, parts: tuple[str, str | None, str]) -> None:
    assert drift.parse_metric_name(named) == parts


def test_what_a_long_series_shows_is_a_sentence_also_for_json() -> None:
    lasting, crept = LastingChange("step", "2026-03"), Creep(0.12, 0.0095, 1e-4)
    assert drift.past_text(lasting) == "the series shows a lasting step since campaign 2026-03"
    assert drift.past_text(crept) == "crept away from the oldest accepted baseline by +12 %, +0.95 % a campaign"
    rows = (replace(ROW, past=lasting), replace(ROW, past=crept), ROW)
    comparison = Comparison("s", ("2026-01",), "2026-04", False, 0.95, rows, (), Reliability(5, (), (), 0, 5, 0, 5, 0))
    data = drift.comparison_data(comparison)
    assert [row["past"] for row in data["rows"]] == [drift.past_text(lasting), drift.past_text(crept), None]
    assert data.keys() == vars(comparison).keys() and data["rows"][2] == vars(ROW)
