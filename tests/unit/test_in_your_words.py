"""docs/in-your-words.md: each row leads to a place that exists, and each word to one place."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONF = runpy.run_path(str(DOCS / "conf.py"))
PLACES = CONF["synonyms"]()


@pytest.mark.parametrize("page", sorted(PLACES))
def test_each_row_leads_to_a_heading_of_a_page(page: str) -> None:
    text = CONF["with_synonyms"]((DOCS / f"{page}.md").read_text(encoding="utf-8"), PLACES[page])
    assert text.count("```{index}") == len(PLACES[page])


def test_a_heading_that_does_not_exist_is_reported() -> None:
    with pytest.raises(ValueError, match="snoozing"):
        CONF["with_synonyms"]("# Alerts\n\n```sh\n# snoozing\n```\n", {"snoozing": ["mute"]})


def test_index_entries_come_after_a_title_and_before_a_section() -> None:
    text = CONF["with_synonyms"]("# Alerts\n\nText.\n\n## Snooze\n", {"": ["alarm"], "snooze": ["mute", "silence"]})
    assert text.splitlines() == [
        *("# Alerts", "", "```{index} ! alarm", "```", "", "Text.", ""),
        *("```{index} ! mute, ! silence", "```", "", "## Snooze"),
    ]


def test_each_word_leads_to_one_place() -> None:
    words = Counter(word for anchors in PLACES.values() for found in anchors.values() for word in found)
    assert [word for word, times in words.items() if times > 1] == []


def test_every_row_was_read() -> None:
    rows = [
        line
        for line in (DOCS / "in-your-words.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and "| here |" not in line
    ]
    read = sum(len(words) for words in PLACES["in-your-words"].values())
    assert len(rows) > 50 and read == sum(len(row.split("|")[1].split(",")) for row in rows)
