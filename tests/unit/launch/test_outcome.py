"""The last words of a trial. How each way to end is classified is shown with real processes in the integration tests."""

from __future__ import annotations

from plumbline.launch.outcome import last_lines


def test_last_lines_of_a_tail() -> None:
    assert last_lines("one\n\n two\n") == "one | two"
    assert last_lines("\n".join("abcdefgh")) == "d | e | f | g | h"
    assert last_lines("\n") == "it printed nothing"
