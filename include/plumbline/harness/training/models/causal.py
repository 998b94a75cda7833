"""A causal LM of `transformers` with the loop's manners."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class CausalLm(nn.Module):
    """Token ids (batch, sequence) int64 → logits (batch, sequence, vocabulary)."""

    def __init__(self, lm: nn.Module) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, ids: Tensor, cache: Any = None) -> Tensor:
        """With a `cache`, the ids follow those that it has seen, and it remembers them too."""
        # Asked for nothing, the library would fill a cache in each training step.
        logits: Tensor = self.lm(input_ids=ids, past_key_values=cache, use_cache=cache is not None).logits
        return logits

    def new_cache(self) -> Any:
        """Keys and values of no token yet."""
        from transformers.cache_utils import DynamicCache

        return DynamicCache(config=self.lm.config)
