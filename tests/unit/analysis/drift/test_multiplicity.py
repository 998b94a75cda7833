from __future__ import annotations

import pytest

from plumbline.analysis.drift.verdicts import benjamini_hochberg


def test_one_lucky_p_among_many_is_taken_back_and_a_common_move_is_not() -> None:
    assert benjamini_hochberg([0.02, *[0.8] * 7])[0] == pytest.approx(0.16)
    assert benjamini_hochberg([0.02] * 8) == pytest.approx([0.02] * 8)


def test_nothing_to_correct() -> None:
    assert benjamini_hochberg([]) == ()
