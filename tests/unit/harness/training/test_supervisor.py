"""Which of many causes is the one."""

from __future__ import annotations

from plumbline.harness.training.supervisor import Cause, Explanation

LOST = Cause("harness_error", "lost another rank", certain=False)
KILLED = Cause("out_of_memory", "was killed", certain=True)


def test_nothing_broke_off() -> None:
    assert Explanation().of([]) is None


def test_a_certain_cause_is_taken_at_once_whatever_came_before() -> None:
    explanation = Explanation()
    assert explanation.of([LOST]) is None
    assert explanation.of([LOST, KILLED]) is KILLED


def test_without_a_better_one_the_first_is_taken_after_a_while() -> None:
    explanation = Explanation(patience_s=0.0)
    explanation.of([LOST])
    found = None
    while found is None:
        found = explanation.of([LOST, LOST])
    assert found is LOST
