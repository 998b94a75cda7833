"""The shipped tokenizer is what its command makes, loses nothing, and has the vocabulary that declarations are held against."""

from __future__ import annotations

import json

from plumbline.declarations.workloads.inference import TOKENIZER_VOCABULARY
from plumbline.harness.inference.load import prompts
from plumbline.harness.inference.load.prompts import TOKENIZER_FILE, shipped_tokenizer, train_tokenizer


def test_the_shipped_file_is_what_its_command_makes() -> None:
    assert json.loads(train_tokenizer().to_str()) == json.loads(TOKENIZER_FILE.read_text(encoding="utf-8"))


def test_vocabulary() -> None:
    assert shipped_tokenizer().get_vocab_size() == TOKENIZER_VOCABULARY


def test_any_text_comes_back() -> None:
    for text in (prompts.corpus_text(500, 9), "naïve “quotes”, 12.5 µs\n\tand\x00 中文 🙂", " "):
        assert shipped_tokenizer().decode(shipped_tokenizer().encode(text).ids) == text


def test_frequent_words_are_one_token_and_rare_ones_several() -> None:
    sizes = [len(encoding.ids) for encoding in shipped_tokenizer().encode_batch([f" {word}" for word in prompts.corpus_words()])]
    assert max(sizes[:100]) == 1
    assert sum(sizes[-100:]) > 200
