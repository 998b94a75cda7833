"""Text in and out of a served model, by the tokenizer that lies beside it."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from torch import Tensor


class Text:
    """The model's tokenizer; OSError-like exceptions of `tokenizers` if its file is not there."""

    def __init__(self, file: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(file))

    def ids(self, text: Tensor) -> Tensor:
        """UTF-8 as uint8 [bytes] → token ids, int64 [tokens]; UnicodeDecodeError if it is none."""
        words = text.contiguous().numpy().tobytes().decode("utf-8")
        return torch.tensor(self.tokenizer.encode(words, add_special_tokens=False).ids, dtype=torch.long)

    def answer(self) -> Answer:
        """A new answer to be written."""
        return Answer(self.tokenizer)


class Answer:
    """Tokens become text as they come."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def add(self, token: int) -> Tensor:
        """The text that a token adds, UTF-8 as uint8 [bytes]; empty while a character is not complete."""
        piece = (self._stream.step(self._tokenizer, token) or "").encode()
        return torch.frombuffer(bytearray(piece), dtype=torch.uint8) if piece else torch.empty(0, dtype=torch.uint8)
