"""From which probability on a ranking names a winner, and among how many it does not."""

from __future__ import annotations

import pytest

from plumbline.analysis.decisions.certainty import contenders


@pytest.mark.parametrize(
    ("probabilities", "count"),
    [
        ([0.88, 0.12], 1),
        ([0.5, 0.5], 1),
        ([0.49, 0.48, 0.03], 2),
        ([0.1] * 10, 9),
        ([0.4, 0.3, 0.2, 0.1], 3),
        ([None], 1),
        ([None, None], 1),
        ([], 0),
    ],
)
def test_below_one_half_the_first_place_is_shared(probabilities: list[float | None], count: int) -> None:
    assert contenders(probabilities) == count
