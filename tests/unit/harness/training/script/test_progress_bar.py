"""Where bars of several programs are."""

from __future__ import annotations

from plumbline.harness.training.script.progress_bar import BarPosition, bar_position

TRAINING = " 4%|x         | 1317/36234 [11:37<5:10:26,  1.87it/s]"


def test_a_bar_says_how_many_steps_are_done() -> None:
    assert bar_position(TRAINING, None) == BarPosition(1317, 36234)
    assert bar_position("2024/03/01 loss 1/3", None) is None


def test_a_shorter_bar_beside_it_is_another_one() -> None:
    before = BarPosition(1317, 36234)
    assert bar_position("Evaluating: 50%|x| 5/10 [00:01<00:01]", before) == before
    assert bar_position(TRAINING.replace("1317", "1318"), before) == BarPosition(1318, 36234)
