"""The shipped tokenizer: byte-level BPE, trained on the corpus of this package by `python -m plumbline.harness.inference.tokenizer`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from plumbline.declarations.sizes import TOKENIZER_VOCABULARY
from plumbline.harness.inference import corpus

FILE = Path(__file__).with_name("tokenizer.json")
_TRAINED_ON = 400_000  # pieces of text
_SEED = 1


@cache
def shipped() -> Tokenizer:
    """The tokenizer of `FILE`, which a served model loads too: text becomes the same ids in client and server."""
    return Tokenizer.from_file(str(FILE))


def trained() -> Tokenizer:
    """A tokenizer trained as the shipped one was; the same merges on every machine."""
    tokenizer = Tokenizer(models.BPE())
    # Words are split before any merge, each with the space before it: what a word becomes depends on no neighbour.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENIZER_VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[], show_progress=False
    )
    tokenizer.train_from_iterator([corpus.text(_TRAINED_ON, _SEED)], trainer)
    return tokenizer


if __name__ == "__main__":
    trained().save(str(FILE), pretty=False)
