"""A decoder-only transformer that generates many sequences at once, one token each a step.

It lies in Triton's model repository beside `model.py` and imports nothing but torch. Weights are random from a seed: what is
measured is the serving, and a random model costs exactly as much to run as a trained one of the same shape.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and MLP, each behind a norm; keys and values live in the caller's cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of `x` [sequences, tokens, width], each [sequences, heads, tokens, width / heads]."""
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return q, k, v

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        """Everything after attention: `attended` [sequences, heads, tokens, width / heads] joins the residual stream."""
        x = x + self.proj(attended.transpose(1, 2).reshape(x.shape))
        hidden: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return hidden


class Transformer(nn.Module):
    """The weights, and a key/value cache with one row for each of at most `sequences` sequences.

    Rows 0 … `active` - 1 are in use and stay packed, so that a step works on a slice of the cache and copies nothing.
    """

    def __init__(self, *, layers: int, width: int, heads: int, vocabulary: int, context: int, sequences: int) -> None:
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        cache = torch.zeros(2, layers, sequences, heads, context, width // heads)
        self.register_buffer("cache", cache, persistent=False)
        self.cache: Tensor
        self.register_buffer("last", torch.zeros(sequences, dtype=torch.long), persistent=False)
        self.last: Tensor
        self.lengths: list[int] = []

    @property
    def active(self) -> int:
        """Sequences in the cache."""
        return len(self.lengths)

    @property
    def full(self) -> bool:
        """Whether every row of the cache is in use."""
        return self.active == self.cache.shape[2]

    @torch.inference_mode()
    def admit(self, prompt: Tensor) -> Tensor:
        """Prefill one prompt [tokens] into the next free row and return its first generated token [1]."""
        row, t = self.active, prompt.shape[0]
        if self.full or not 0 < t <= self.context:
            raise ValueError(f"a prompt of {t} tokens into {self.active} active sequences; expected 1…{self.context} tokens and a free row")
        x = self.token(prompt[None]) + self.position.weight[:t]
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            q, k, v = block.heads_of(x)
            self.cache[0, i, row, :, :t], self.cache[1, i, row, :, :t] = k[0], v[0]
            x = block.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        self.lengths.append(t)
        self.last[row] = self._choose(x[:, -1])[0]
        return self.last[row : row + 1].clone()

    @torch.inference_mode()
    def step(self) -> Tensor:
        """Generate one more token for every active sequence: [active], in row order."""
        n = self.active
        if n and max(self.lengths) >= self.context:
            raise ValueError(f"a sequence has reached the context of {self.context} tokens; expected it to be released before")
        at = torch.tensor(self.lengths, device=self.last.device)
        rows, longest = torch.arange(n, device=self.last.device), max(self.lengths, default=0) + 1
        # Sequences differ in length: what lies behind a shorter one's end is another, older sequence's and is masked out.
        visible = (torch.arange(longest, device=self.last.device) <= at[:, None])[:, None, None]
        x = self.token(self.last[:n, None]) + self.position(at)[:, None]
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            q, k, v = block.heads_of(x)
            self.cache[0, i, rows, :, at], self.cache[1, i, rows, :, at] = k[:, :, 0], v[:, :, 0]
            keys, values = self.cache[0, i, :n, :, :longest], self.cache[1, i, :n, :, :longest]
            x = block.rest(x, F.scaled_dot_product_attention(q, keys, values, attn_mask=visible))
        self.lengths = [length + 1 for length in self.lengths]
        self.last[:n] = self._choose(x[:, -1])
        return self.last[:n].clone()

    def release(self, row: int) -> None:
        """Free one row. The last active sequence moves into it: callers that keep a list by row do the same."""
        end = self.active - 1
        if row != end:
            t = self.lengths[end]
            self.cache[:, :, row, :, :t] = self.cache[:, :, end, :, :t]
            self.last[row] = self.last[end]
            self.lengths[row] = t
        self.lengths.pop()

    def _choose(self, hidden: Tensor) -> Tensor:
        token: Tensor = self.head(self.norm(hidden)).argmax(-1)
        return token


def seeded(seed: int, device: str = "cpu", **shape: int) -> Transformer:
    """A transformer in evaluation mode whose weights follow from `seed` alone, whatever the device."""
    torch.manual_seed(seed)
    model = Transformer(**shape)
    for name, weights in model.named_parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(weights)
    return model.eval().to(device)
