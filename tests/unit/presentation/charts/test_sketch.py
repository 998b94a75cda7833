"""Pictures of curves, as numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.data.result_documents import document, trial

from plumbline.presentation.charts.trial import HIGH, WIDE, CurveSketch, curve_sketches
from plumbline.results import Curve, Point


def curve(phase: Any, metric: str, along: Any, *values: tuple[float, float | None], unit: Any = "nats", statistic: str = "mean") -> Curve:
    points = tuple(Point(at=at, value=value, n=1) for at, value in values)
    return Curve(phase=phase, along=along, metric=metric, statistic=statistic, unit=unit, points=points)


def drawn(*curves: Curve) -> tuple[CurveSketch, ...]:
    return curve_sketches(document(trial("training"), curves=curves))


def test_the_phases_of_a_curve_are_one_picture_with_what_is_not_steady_shaded() -> None:
    (found,) = drawn(
        curve("cold_start", "training_loss", "step", (0, 5.0)),
        curve("warmup", "training_loss", "step", (1, 4.5), (2, 4.0)),
        curve("steady", "training_loss", "step", (3, 3.5), (10, 1.0)),
    )
    assert (found.title, found.along, found.first, found.last) == ("Training loss", "step", "0", "10")
    assert [part.phase for part in found.parts] == ["cold_start", "warmup", "steady"]
    assert found.shaded == pytest.approx(0.3 * WIDE)
    assert found.parts[2].path.startswith(found.parts[1].path.rsplit("L", 1)[1].join(("M", ""))), "the line goes on where it was"
    assert found.parts[2].path.endswith(f"L{WIDE:.1f} {HIGH * (1 - 0.06 / 1.12):.1f}")
    assert "5.00 nats at first, 1.00 nats at last" in found.said


def test_throughput_begins_at_nothing_and_at_the_first_step() -> None:
    (found,) = drawn(
        curve("steady", "effective_tokens_per_second", "run_time", (5.0, 100.0), (10.0, 50.0), unit="tokens/s", statistic="value")
    )
    assert (found.bottom, found.first, found.last) == ("0.0 tokens/s", "0 s", "10.0 s")
    x, y = (float(number) for number in found.parts[0].path[1:].split("L")[0].split())
    assert (x, y) == (pytest.approx(WIDE / 2), pytest.approx(HIGH * (1 - 1 / 1.06), abs=0.1))


def test_ranks_are_marks_that_no_line_joins() -> None:
    (found,) = drawn(curve("steady", "rank_busy_time", "rank", (0, 0.1), (1, 0.2), (2, 0.1), unit="s", statistic="median"))
    assert found.marks and found.shaded == 0.0
    assert found.parts[0].path.count("h0") == 3 and "L" not in found.parts[0].path


def test_what_has_no_value_is_counted_and_not_drawn() -> None:
    (found,) = drawn(curve("steady", "training_loss", "step", (0, 2.0), (1, None), (2, 1.0)))
    assert found.absent == 1 and found.parts[0].path.count("L") == 1
    assert drawn(curve("steady", "training_loss", "step", (0, None))) == ()


def test_one_point_and_values_that_are_all_the_same_can_be_drawn() -> None:
    (found,) = drawn(curve("cold_start", "training_loss", "step", (0, 0.0)))
    assert found.parts[0].path == f"M{WIDE / 2:.1f} {HIGH / 2:.1f}"


def test_prompt_lengths_are_left_to_their_table() -> None:
    assert drawn(curve("context", "prefill_time", "input_tokens", (8, 0.1), unit="s")) == ()
