"""Sequences of a transformers model that generate together: one forward pass gives each its next token. Imports nothing but torch.

A row is padded on its left to the length of the longest, as transformers' own `generate` pads a batch. Rows of one length have no padding and
no mask: what a sequence alone computes is the plain forward pass.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 16384
"""Tokens of keys and values, padding included, up to which any rows go together."""


def joinable(cache: Any) -> bool:
    """Whether a sequence's cache is plain keys and values of all its tokens: not of a window, not quantised, not a recurrent state."""
    return bool(cache.layers) and all(type(layer).__name__ == "DynamicLayer" for layer in cache.layers)


class Rows:
    """At first one sequence: its `cache` of `length` tokens, its last token [1, 1], and `banned` [vocabulary] bool, which it may not choose."""

    def __init__(self, cache: Any, length: int, last: Tensor, banned: Tensor) -> None:
        self.cache, self.lengths, self.last, self.banned = cache, [length], last, banned[None]

    def fits(self, other: Rows) -> bool:
        """Whether the padding of both together takes no more memory than their tokens do."""
        lengths = [*self.lengths, *other.lengths]
        padded = len(lengths) * max(lengths)
        return padded <= max(SMALL, 2 * sum(lengths)) and joinable(self.cache) and joinable(other.cache)

    @torch.inference_mode()
    def join(self, other: Rows) -> None:
        """Append the rows of another batch."""
        longest = max(*self.lengths, *other.lengths)
        for mine, its in zip(self.cache.layers, other.cache.layers, strict=True):
            mine.keys = torch.cat([_padded(mine.keys, longest), _padded(its.keys, longest)])
            mine.values = torch.cat([_padded(mine.values, longest), _padded(its.values, longest)])
        self.lengths += other.lengths
        self.last, self.banned = torch.cat([self.last, other.last]), torch.cat([self.banned, other.banned])

    @torch.inference_mode()
    def keep(self, rows: list[int]) -> None:
        """Give up all rows but these, in this order; at least one stays."""
        if len(rows) == len(self.lengths):
            return
        self.lengths = [self.lengths[row] for row in rows]
        index, longest = torch.tensor(rows, device=self.last.device), max(self.lengths)
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[index, :, -longest:], layer.values[index, :, -longest:]
        self.last, self.banned = self.last[index], self.banned[index]

    @torch.inference_mode()
    def step(self, model: Any) -> list[int]:
        """The next token of each row. The device is waited for once."""
        longest, device = max(self.lengths), self.last.device
        options: dict[str, Any] = {}
        if len(self.lengths) > 1:
            places = torch.tensor(self.lengths)[:, None]
            options["position_ids"] = places.to(device)
            if min(self.lengths) < longest:
                options["attention_mask"] = (torch.arange(longest + 1) >= longest - places).long().to(device)
        logits = model(input_ids=self.last, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **options).logits
        self.last = choice(logits[:, -1], self.banned)
        self.lengths = [length + 1 for length in self.lengths]
        tokens: list[int] = self.last[:, 0].tolist()
        return tokens


def choice(logits: Tensor, banned: Tensor) -> Tensor:
    """The most probable token of each row of logits [rows, vocabulary] that is not `banned` [rows, vocabulary]: [rows, 1]."""
    return logits.float().masked_fill(banned, float("-inf")).argmax(-1, keepdim=True)


def _padded(tokens: Tensor, length: int) -> Tensor:
    """[rows, heads, tokens, size], zeros before the first token."""
    return F.pad(tokens, (0, 0, length - tokens.shape[2], 0))
