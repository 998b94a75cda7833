"""The Pareto line, and labels that stay inside their chart."""

from __future__ import annotations

import pytest

from plumbline.presentation.charts.chart import labels
from plumbline.presentation.charts.fleet import pareto


@pytest.mark.parametrize(("sign", "lower_is_better"), [(1, True), (-1, False)])
def test_nobody_beats_a_point_on_the_pareto_line(sign: int, lower_is_better: bool) -> None:
    points = {"cheap": (1.0, 9.0), "fast": (5.0, 1.0), "worse": (5.0, 9.0), "between": (2.0, 4.0), "twin": (2.0, 4.0)}
    assert pareto({name: (cost, sign * speed) for name, (cost, speed) in points.items()}, lower_is_better) == ("cheap", "between", "fast")


def test_labels_extend_inwards_and_do_not_overlap() -> None:
    drawn = labels({"last": 5.0, "first": 1.0, "beside": 1.4, "middle": 3.0}, [1.0, 1.4, 3.0, 5.0])
    assert drawn["text"] == ["last", "first", "", "middle"]
    assert drawn["textposition"][:2] == ["top left", "top right"] and drawn["textposition"][3] == "top center"


def test_providers_of_one_price_have_one_label() -> None:
    assert labels({"a": 2.0, "b": 2.0}, [2.0, 2.0])["text"] == ["a", ""]
