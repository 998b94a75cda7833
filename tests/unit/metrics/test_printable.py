"""Text of other programs loses what a terminal acts on, and nothing else."""

from __future__ import annotations

import json

import pytest

from plumbline.metrics.printable import printable, printable_json, printable_styled, printable_values

HOSTILE = "a\x1b[2J\x1b[31mb\x1b]0;owned\x07c\x9b1Ad\r\x08e\u202ef\x7fg\u2028h\ud800i\x1b]52;c;QUJD\x1b\\j\U000e0041k"


def test_what_a_terminal_acts_on_is_removed() -> None:
    assert printable(HOSTILE) == "abcdefghijk"
    assert printable_styled(HOSTILE) == "a\x1b[31mbcdefghijk"


@pytest.mark.parametrize("text", ["", "two\nlines\twith a tab", "Größe → 3 µs – ✓ 模型", "[/ops/123] [bold]", "👩‍🚀"])
def test_any_other_text_stays_the_same_object(text: str) -> None:
    assert printable(text) is text
    assert printable_styled(text) == text


def test_values_of_json_are_cleaned_at_every_depth() -> None:
    assert printable_values({HOSTILE: [HOSTILE, 1, None, {"a": (HOSTILE,)}]}) == {
        "abcdefghijk": ["abcdefghijk", 1, None, {"a": ["abcdefghijk"]}]
    }


def test_json_keeps_its_values() -> None:
    written = json.dumps({"a": HOSTILE}, ensure_ascii=False)
    shown = printable_json(written)
    assert printable(shown) == shown
    assert json.loads(shown) == {"a": HOSTILE}
