"""Charts of a trial's curves."""

from __future__ import annotations

from typing import Any

from tests.data.result_documents import document, trial

from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.trial import curve_charts
from plumbline.results import Curve, Point


def curve(phase: Any, metric: str, along: Any, *values: tuple[float, float | None], unit: Any = "nats", statistic: str = "mean") -> Curve:
    points = tuple(Point(at=at, value=value, n=1) for at, value in values)
    return Curve(phase=phase, along=along, metric=metric, statistic=statistic, unit=unit, points=points)


def drawn(*curves: Curve) -> tuple[Chart, ...]:
    return curve_charts(document(trial("training"), curves=curves))


def test_phases_share_one_chart_and_all_but_the_steady_phase_is_shaded() -> None:
    (chart,) = drawn(
        curve("cold_start", "training_loss", "step", (0, 5.0)),
        curve("warmup", "training_loss", "step", (1, 4.5), (2, 4.0)),
        curve("steady", "training_loss", "step", (3, 3.5), (10, 1.0)),
    )
    (line,) = chart.data
    assert (line["mode"], line["x"], line["y"]) == ("lines", [0, 1, 2, 3, 10], [5.0, 4.5, 4.0, 3.5, 1.0])
    (shaded,) = chart.layout["shapes"]
    assert (shaded["x0"], shaded["x1"]) == (0, 3)
    assert "rangemode" not in chart.layout["yaxis"], "a loss does not start at zero"


def test_throughput_starts_at_zero_and_at_the_first_step() -> None:
    (chart,) = drawn(
        curve("steady", "effective_tokens_per_second", "run_time", (5.0, 100.0), (10.0, 50.0), unit="tokens/s", statistic="value")
    )
    assert chart.layout["yaxis"]["rangemode"] == "tozero" and chart.layout["shapes"] == [] and chart.data[0]["y"] == [100.0, 50.0]


def test_ranks_are_marks_without_a_line() -> None:
    (chart,) = drawn(curve("steady", "rank_busy_time", "rank", (0, 0.1), (1, 0.2), (2, 0.1), unit="s", statistic="median"))
    assert chart.data[0]["mode"] == "markers" and chart.data[0]["x"] == [0, 1, 2] and chart.layout["shapes"] == []


def test_points_without_a_value_are_counted_and_not_drawn() -> None:
    (chart,) = drawn(curve("steady", "training_loss", "step", (0, 2.0), (1, None), (2, 1.0)))
    assert chart.data[0]["y"] == [2.0, None, 1.0] and chart.caption.startswith("1 point ")
    assert drawn(curve("steady", "training_loss", "step", (0, None))) == ()


def test_one_point_is_a_mark() -> None:
    (chart,) = drawn(curve("cold_start", "training_loss", "step", (0, 0.0)))
    assert (chart.data[0]["mode"], chart.data[0]["y"]) == ("markers", [0.0])


def test_a_table_shows_curves_by_prompt_length() -> None:
    assert drawn(curve("context", "prefill_time", "input_tokens", (8, 0.1), unit="s")) == ()
