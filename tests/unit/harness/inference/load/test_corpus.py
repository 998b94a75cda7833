from __future__ import annotations

import re

import numpy as np
import pytest

from plumbline.harness.inference.load import prompts


def test_words_are_distinct_words() -> None:
    words = prompts.corpus_words()
    assert len(set(words)) == len(words) == prompts.CORPUS_WORDS
    assert all(re.fullmatch(r"[a-zéü]{1,40}", word) for word in words)


def test_text_is_sentences() -> None:
    text = prompts.corpus_text(2000, 1)
    assert re.fullmatch(r"( [A-Za-zéüÉÜ]+[,.]?)+", text)
    assert text[1].isupper()
    assert all(letter.isupper() for letter in re.findall(r"\. (.)", text))
    assert not any(letter.isupper() for letter in re.findall(r"[^.] (.)", text))
    assert 50 < text.count(".") < 300


def test_words_come_as_often_as_words_do() -> None:
    """Zipf's law, with the first ranks flattened: the tenth word about 3/12 as often as the first, the 300th about 3/302."""
    counts = np.bincount(prompts.corpus_stream(400_000, np.random.Generator(np.random.PCG64(2))) // 6, minlength=prompts.CORPUS_WORDS)
    assert counts[9] / counts[0] == pytest.approx(3 / 12, rel=0.1)
    assert counts[280:320].mean() / counts[0] == pytest.approx(3 / 302, rel=0.1)


def test_the_seed_makes_the_text() -> None:
    assert prompts.corpus_text(50, 1) == prompts.corpus_text(50, 1) != prompts.corpus_text(50, 2)
    assert prompts.corpus_text(0, 1) == ""
