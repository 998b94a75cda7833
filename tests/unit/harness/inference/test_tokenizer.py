"""The shipped tokenizer is what its command makes, loses nothing, and has the vocabulary that declarations are held against."""

from __future__ import annotations

import json

from plumbline.declarations.sizes import TOKENIZER_VOCABULARY
from plumbline.harness.inference import corpus
from plumbline.harness.inference.tokenizer import FILE, shipped, trained


def test_the_shipped_file_is_what_its_command_makes() -> None:
    assert json.loads(trained().to_str()) == json.loads(FILE.read_text(encoding="utf-8"))


def test_vocabulary() -> None:
    assert shipped().get_vocab_size() == TOKENIZER_VOCABULARY


def test_any_text_comes_back() -> None:
    for text in (corpus.text(500, 9), "naïve “quotes”, 12.5 µs\n\tand\x00 中文 🙂", " "):
        assert shipped().decode(shipped().encode(text).ids) == text


def test_frequent_words_are_one_token_and_rare_ones_several() -> None:
    sizes = [len(encoding.ids) for encoding in shipped().encode_batch([f" {word}" for word in corpus.words()])]
    assert max(sizes[:100]) == 1
    assert sum(sizes[-100:]) > 200
