"""Numbers as people read them."""

from __future__ import annotations

import pytest
from tests.golden import Golden

from plumbline.metrics.formatting import common_scale, format_bytes, format_name, format_percent, format_probability, join_words


@pytest.mark.parametrize(
    ("unit", "values", "metric", "texts"),
    [
        ("s", [0.0263, 0.0161], "", ["26.3 ms", "16.1 ms"]),
        ("s", [4.95, 60.0], "", ["4.95 s", "60.00 s"]),
        ("s", [7200.0, 9000.0], "", ["2.00 h", "2.50 h"]),
        ("tokens/s", [19494.2, 31786.0], "", ["19,494 tokens/s", "31,786 tokens/s"]),
        ("1/s", [6.1333], "", ["6.13/s"]),
        ("ratio", [0.417], "training_goodput", ["41.7 %"]),
        ("nats", [1.16], "final_loss", ["1.16 nats"]),
        ("ratio", [0.0], "error_rate", ["0 %"]),
        ("FLOP/s", [61e9], "", ["61.0 GFLOP/s"]),
        ("bytes", [13_246_512.0], "", ["12.6 MiB"]),
        ("USD", [49160.0], "", ["49,160 USD"]),
        ("USD", [0.000285], "", ["0.000285 USD"]),
        ("USD", [9.06e-7], "cost_per_good_request", ["0.906 USD per million"]),
    ],
)
def test_one_unit_and_precision_for_a_row(unit: str, values: list[float], metric: str, texts: list[str]) -> None:
    shown = common_scale(unit, values, metric)
    assert [shown.text(v) for v in values] == texts


def test_absent_is_a_dash_and_never_zero() -> None:
    shown = common_scale("s", [None, 0.5])
    assert shown.text(None) == "–"
    assert common_scale("s", []).text(None) == "–"


def test_one_tiny_value_does_not_stretch_the_row() -> None:
    assert common_scale("s", [1e-9, 0.5, 0.6]).text(0.5) == "500.0 ms"


def test_whole_counts_are_whole() -> None:
    assert common_scale("count", [36.0]).text(36.0) == "36"
    assert common_scale("count", [3.25]).text(3.25) == "3.25"


def test_a_probability_is_never_certain() -> None:
    assert (format_probability(1.0), format_probability(0.0), format_probability(0.874), format_probability(None)) == (
        "> 99 %",
        "< 1 %",
        "87 %",
        "–",
    )


def test_words_and_lists(golden: Golden) -> None:
    names = ("cost_per_1m_output_tokens", "cost_per_1m_output_tokens_at_offered_rate", "cost_per_1m_trained_tokens")
    golden("metrics.names_of_costs", "\n".join(map(format_name, names)))
    golden("metrics.list_of_three", join_words(["a", "b", "c"]))
    assert (join_words([]), join_words(["a"])) == ("", "a")
    assert (format_percent(None), format_percent(0.5), format_bytes(12), format_bytes(2048)) == ("–", "50 %", "12 B", "2.00 KiB")


def test_zero_of_a_clock_that_counts_whole_seconds_is_under_one() -> None:
    assert common_scale("s", [0.0], "provisioning_lead_time").text(0.0) == "under 1 s"
    assert common_scale("s", [0.0, 12.0], "pod_scheduling_time").text(12.0) == "12.0 s"
    assert common_scale("s", [0.0, 12.0], "data_wait_time").text(0.0) == "0.0 s"
