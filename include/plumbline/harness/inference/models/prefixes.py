"""Keys and values of prompts' beginnings, kept for prompts that begin alike; imports nothing but torch.

A prompt's whole blocks are kept, each under a hash of everything up to its end: only what follows the very same tokens is the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from itertools import takewhile

import torch
from torch import Tensor

BLOCK = 16
"""Tokens of one block."""


class Prefixes:
    """At most `tokens` tokens' keys and values, the least recently used ones given up first.

    `hits`, `misses`: prompt tokens that were found here, and those that had to be computed.
    """

    def __init__(self, cache: Tensor, tokens: int) -> None:
        """`cache` [layers, sequences, context, 2, heads, head]: what the kept blocks are taken from and put into."""
        layers, _, _, two, heads, head = cache.shape
        self.pool = torch.zeros(layers, max(1, tokens // BLOCK), BLOCK, two, heads, head, dtype=cache.dtype, device=cache.device)
        self.slots: OrderedDict[bytes, int] = OrderedDict()
        self.hits = self.misses = 0

    @torch.inference_mode()
    def known(self, prompt: Tensor) -> Tensor | None:
        """Keys and values of the longest beginning that is kept, [layers, tokens, 2, heads, head]; the last token is never among them."""
        # Without one token to compute there would be no state that the first answer could come from.
        keys = _keys(prompt[: len(prompt) - 1])
        hits = list(takewhile(self.slots.__contains__, keys))
        self._touch(hits)
        self.hits += len(hits) * BLOCK
        self.misses += len(prompt) - len(hits) * BLOCK
        if not hits:
            return None
        slots = torch.tensor([self.slots[key] for key in hits], device=self.pool.device)
        return self.pool[:, slots].flatten(1, 2)

    @torch.inference_mode()
    def keep(self, prompt: Tensor, computed: Tensor) -> None:
        """Keep a prompt's whole blocks. `computed` [layers, at least tokens, 2, heads, head]: its keys and values."""
        keys = _keys(prompt)[: self.pool.shape[1]]
        # First, so that room is never made at this prompt's own expense.
        self._touch([key for key in keys if key in self.slots])
        for i, key in enumerate(keys):
            if key not in self.slots:
                free = len(self.slots) < self.pool.shape[1]
                self.slots[key] = len(self.slots) if free else self.slots.popitem(last=False)[1]
                self.pool[:, self.slots[key]] = computed[:, i * BLOCK : (i + 1) * BLOCK]
        self._touch(keys)

    def _touch(self, keys: list[bytes]) -> None:
        # The end of a prefix is given up before its beginning: without the beginning it cannot be found.
        for key in reversed(keys):
            self.slots.move_to_end(key)


def _keys(prompt: Tensor) -> list[bytes]:
    """A hash for each whole block of a prompt, over the prompt up to the block's end."""
    tokens, keys, last = prompt.to("cpu", torch.int32).numpy().tobytes(), [], b""
    for begin in range(0, len(tokens) - 4 * BLOCK + 1, 4 * BLOCK):
        last = hashlib.blake2b(last + tokens[begin : begin + 4 * BLOCK], digest_size=16).digest()
        keys.append(last)
    return keys
