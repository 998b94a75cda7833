from __future__ import annotations

import time

import numpy as np
import pytest

from plumbline.harness.inference.load.prompts import CorpusText, PromptSource, RandomIds, shipped_tokenizer
from plumbline.loadclient.prompt import Prompt


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


COUNTS = [1, 2, 3, 0, 7, 64, 1, 1000, 5, 0]


@pytest.mark.parametrize("source", [RandomIds(2048), CorpusText()], ids=["ids", "text"])
def test_segments_have_exactly_the_tokens_asked_for(source: PromptSource) -> None:
    found = source.segments(COUNTS, rng())
    assert [len(segment.ids) for segment in found] == COUNTS
    assert all(segment.ids.dtype == np.int32 for segment in found)
    again, other = source.segments(COUNTS, rng()), source.segments(COUNTS, rng(2))
    assert all(np.array_equal(a.ids, b.ids) and a.text == b.text for a, b in zip(found, again, strict=True))
    assert not np.array_equal(found[7].ids, other[7].ids)
    assert source.segments([], rng()) == []
    assert [len(segment.ids) for segment in source.segments([0, 0], rng())] == [0, 0]


def test_ids_cover_the_vocabulary() -> None:
    ids = RandomIds(16).segments([10_000], rng())[0].ids
    assert (ids.min(), ids.max(), len(np.unique(ids))) == (0, 15, 16)


def test_the_tokenizer_makes_of_the_text_exactly_the_ids() -> None:
    """Alone, and one after the other in any order: what a conversation and a shared prefix are put together of."""
    counts = rng().integers(1, 200, 2000).tolist()
    found = CorpusText().segments(counts, rng())
    encoded = shipped_tokenizer().encode_batch([segment.text or "" for segment in found])
    assert all(encoding.ids == segment.ids.tolist() for encoding, segment in zip(encoded, found, strict=True))
    for first, second in zip(found[:300], found[-300:], strict=True):
        joined = first + second
        assert joined.text is not None
        assert shipped_tokenizer().encode(joined.text).ids == joined.ids.tolist() == [*first.ids, *second.ids]


def test_most_of_a_text_is_running_text() -> None:
    """Only what no whole piece fits into is filled with short words."""
    segment = CorpusText().segments([2000], rng())[0]
    assert segment.text is not None
    assert len(segment.text.split()) < 1500, "words of several tokens are among them"
    assert "." in segment.text


def test_ids_and_text_do_not_mix_into_a_text() -> None:
    both = Prompt(np.array([1], np.int32)) + Prompt(np.array([2], np.int32), " a")
    assert (both.ids.tolist(), both.text) == ([1, 2], None)


def test_many_segments_are_made_in_seconds() -> None:
    began = time.process_time()
    assert len(CorpusText().segments([32] * 20_000, rng())) == 20_000
    assert time.process_time() - began < 6
