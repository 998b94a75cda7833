"""A prompt: token ids, their text, and the conversation that the text was rendered from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.int32]
NO_IDS: TokenIds = np.empty(0, np.int32)


@dataclass(frozen=True)
class Prompt:
    """`ids` int32 [tokens], and the text that the served model's tokenizer turns into exactly these ids, if prompts go out as text.

    `messages`: the conversation that the text was rendered from, for servers that apply their chat template. No ids: the server counts them.
    """

    ids: TokenIds
    text: str | None = None
    messages: tuple[dict[str, str], ...] | None = None

    def __add__(self, other: Prompt) -> Prompt:
        """One after the other. Holds for the text too: segments end where the tokenizer splits, whatever follows."""
        text = None if self.text is None or other.text is None else self.text + other.text
        return Prompt(np.concatenate([self.ids, other.ids]), text)
