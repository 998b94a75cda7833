"""The Pareto line, and labels that stay inside their chart."""

from __future__ import annotations

import pytest

from plumbline.presentation.charts.chart import label_places
from plumbline.presentation.charts.fleet import pareto


@pytest.mark.parametrize(("sign", "lower_is_better"), [(1, True), (-1, False)])
def test_nobody_beats_a_point_on_the_pareto_line(sign: int, lower_is_better: bool) -> None:
    points = {"cheap": (1.0, 9.0), "fast": (5.0, 1.0), "worse": (5.0, 9.0), "between": (2.0, 4.0), "twin": (2.0, 4.0)}
    assert pareto({name: (cost, sign * speed) for name, (cost, speed) in points.items()}, lower_is_better) == ("cheap", "between", "fast")


def test_labels_at_the_ends_extend_inwards() -> None:
    assert label_places([5.0, 1.0, 3.0]) == ["top left", "top right", "top center"]
    assert label_places([2.0]) == ["top center"]
    assert label_places([]) == []
