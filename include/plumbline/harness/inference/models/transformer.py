"""A decoder-only transformer that works on many sequences at once: a token for each that generates, and a part of waiting prompts.

It lies in Triton's model repository beside `model.py` and imports nothing but torch. Weights are random from a seed: what is
measured is the serving, and a random model costs exactly as much to run as a trained one of the same shape."""

from __future__ import annotations

from dataclasses import dataclass

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

    def projected(self, x: Tensor) -> Tensor:
        """Query, key and value of `x` [tokens, width]: [tokens, 3, heads, width / heads]."""
        t, width = x.shape
        heads: Tensor = self.qkv(self.norm1(x)).view(t, 3, self.heads, width // self.heads)
        return heads

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        """Everything after attention: `attended` [tokens, width] joins the residual stream."""
        x = x + self.proj(attended)
        hidden: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return hidden


@dataclass
class Prefill:
    """A prompt [tokens] of which the first `done` tokens are in the cache."""

    prompt: Tensor
    done: int


@dataclass(frozen=True)
class Chunk:
    """`n` tokens of the prompt in `row`, from `start` on; the last one's state gives a token if `ends`."""

    row: int
    start: int
    n: int
    ends: bool


class Transformer(nn.Module):
    """The weights, and a key/value cache with one row for each sequence that there is room for: none before `reserve`.

    Rows 0 … `generating` - 1 generate; those behind them, up to `active`, are still at their prompts, in order of admission. Rows stay
    packed, so that a step works on a slice of the cache and copies nothing.
    """

    def __init__(self, *, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.cache, self.last = torch.empty(layers, 0, context, 2, heads, width // heads), torch.empty(0, dtype=torch.long)
        self.lengths: list[int] = []
        self.prefills: list[Prefill] = []

    def reserve(self, sequences: int) -> None:
        """Make room for at most `sequences` sequences at a time, where the weights are and in their type; what was generated is forgotten."""
        weights, (layers, _, *tokens) = self.token.weight, self.cache.shape
        # A token's key and value lie side by side: writing one is one copy, and a sequence's are read from one place.
        self.cache = torch.zeros(layers, sequences, *tokens, dtype=weights.dtype, device=weights.device)
        self.last = torch.zeros(sequences, dtype=torch.long, device=weights.device)
        self.lengths, self.prefills = [], []

    @property
    def active(self) -> int:
        """Rows in use."""
        return len(self.lengths)

    @property
    def generating(self) -> int:
        """Rows whose prompt is done."""
        return self.active - len(self.prefills)

    @property
    def full(self) -> bool:
        """Whether every row of the cache is in use."""
        return self.active == self.cache.shape[1]

    @property
    def pending(self) -> int:
        """Prompt tokens that are admitted and not yet computed."""
        return sum(len(prefill.prompt) - prefill.done for prefill in self.prefills)

    @torch.inference_mode()
    def admit(self, prompt: Tensor, known: Tensor | None = None) -> None:
        """Give the next free row to a prompt [tokens]. `known` [layers, k, 2, heads, head]: keys and values of its first k tokens."""
        k = 0 if known is None else known.shape[1]
        if self.full or not k < len(prompt) <= self.context:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens, {k} of them known, into {self.active} active sequences; expected 1…{self.context} tokens, "
                "at least one of them unknown, and a free row"
            )
        if known is not None:
            self.cache[:, self.active, :k] = known
        self.lengths.append(k)
        self.prefills.append(Prefill(prompt.to(self.last.device), k))

    @torch.inference_mode()
    def step(self, budget: int) -> Tensor:
        """One token for each generating row, and at most `budget` tokens of prompts, first come first served.

        Returns the tokens of all rows that generate now, int64 [generating], in row order: those whose prompts just ended have their first.
        """
        n, device = self.generating, self.last.device
        if n and max(self.lengths[:n]) >= self.context:
            raise ValueError(f"a sequence has reached the context of {self.context} tokens; expected it to be released before")
        chunks = self._chunks(budget)
        if not n and not chunks:
            return self.last[:0].clone()
        places = [(row, self.lengths[row]) for row in range(n)]
        places += [(chunk.row, at) for chunk in chunks for at in range(chunk.start, chunk.start + chunk.n)]
        rows, at = torch.tensor(places, device=device).unbind(1)
        parts = [prefill.prompt[c.start : c.start + c.n] for prefill, c in zip(self.prefills, chunks, strict=False)]
        x = self.token(torch.cat([self.last[:n], *parts])) + self.position(at)
        visible, slots = self._visible(n, at[:n]), rows * self.context + at
        for block, cache in zip(self.blocks, self.cache, strict=True):
            assert isinstance(block, Block)
            qkv = block.projected(x)
            cache.view(-1, *cache.shape[2:]).index_copy_(0, slots, qkv[:, 1:])
            x = block.rest(x, self._attended(qkv[:, 0], cache, n, visible, chunks))
        ended = [chunk for chunk in chunks if chunk.ends]
        if chunks:
            ends = torch.tensor([n + sum(c.n for c in chunks[: i + 1]) - 1 for i in range(len(ended))], dtype=torch.long, device=device)
            x = torch.cat([x[:n], x[ends]])
        self.last[: n + len(ended)] = self.head(self.norm(x)).argmax(-1)
        self._advance(n, chunks)
        return self.last[: self.generating].clone()

    def release(self, row: int) -> None:
        """Free one row. If it generates, the last generating row moves into it; the rows at their prompts close up, in their order.

        Callers that keep a list by row do the same: see `close_up`.
        """
        n = self.generating
        if row >= n:
            self.prefills.pop(row - n)
        elif row != n - 1:
            self._move(n - 1, row)
        for hole in range(max(row, n - 1), self.active - 1):
            self._move(hole + 1, hole)
        self.lengths.pop()

    def _chunks(self, budget: int) -> list[Chunk]:
        chunks: list[Chunk] = []
        for row, prefill in enumerate(self.prefills, start=self.generating):
            n = min(budget, len(prefill.prompt) - prefill.done)
            if not n:
                break
            chunks.append(Chunk(row, prefill.done, n, ends=prefill.done + n == len(prefill.prompt)))
            budget -= n
        return chunks

    def _visible(self, n: int, at: Tensor) -> Tensor | None:
        """Which keys each generating row sees, bool [n, 1, 1, longest]; None if they are equally long and see all."""
        lengths = self.lengths[:n]
        if not n or min(lengths) == max(lengths):
            return None
        # What lies behind a shorter sequence's end is another, older sequence's.
        return (torch.arange(max(lengths) + 1, device=at.device) <= at[:, None])[:, None, None]

    def _attended(self, q: Tensor, cache: Tensor, n: int, visible: Tensor | None, chunks: list[Chunk]) -> Tensor:
        """Attention of q [tokens, heads, head], first the generating rows' tokens, then the chunks': [tokens, width]."""
        parts: list[Tensor] = []
        if n:
            k, v = cache[:n, : max(self.lengths[:n]) + 1].permute(2, 0, 3, 1, 4)
            parts.append(F.scaled_dot_product_attention(q[:n, :, None], k, v, attn_mask=visible).reshape(n, -1))
        begin = n
        for chunk in chunks:
            k, v = cache[chunk.row, : chunk.start + chunk.n].permute(1, 2, 0, 3)[:, None]
            mask = _causal(chunk, q.device) if chunk.start else None
            queries = q[begin : begin + chunk.n].transpose(0, 1)[None]
            attention = F.scaled_dot_product_attention(queries, k, v, attn_mask=mask, is_causal=mask is None)
            parts.append(attention[0].transpose(0, 1).reshape(chunk.n, -1))
            begin += chunk.n
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _advance(self, n: int, chunks: list[Chunk]) -> None:
        for row in range(n):
            self.lengths[row] += 1
        for prefill, chunk in zip(self.prefills, chunks, strict=False):
            prefill.done = self.lengths[chunk.row] = chunk.start + chunk.n
        self.prefills = self.prefills[sum(chunk.ends for chunk in chunks) :]

    def _move(self, source: int, target: int) -> None:
        t = self.lengths[source]
        self.cache[:, target, :t] = self.cache[:, source, :t]
        self.last[target] = self.last[source]
        self.lengths[target] = t


def close_up(rows: list[object], row: int, generating: int) -> None:
    """Apply to a list of the same order the move that `release(row)` makes; `generating` before the release."""
    if row < generating - 1:
        rows[row] = rows[generating - 1]
    rows.pop(max(row, generating - 1))


def seeded(seed: int, device: str = "cpu", **shape: int) -> Transformer:
    """A transformer in evaluation mode whose weights follow from `seed` alone, whatever the device."""
    # Without weights at first: drawing them twice would cost a large model seconds of its load.
    with torch.device("meta"):
        model = Transformer(**shape)
    model.to_empty(device="cpu")
    torch.manual_seed(seed)
    for name, weights in model.named_parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(weights)
        else:
            nn.init.ones_(weights)
    return model.eval().to(device)


def _causal(chunk: Chunk, device: torch.device) -> Tensor:
    """A later part of a prompt sees all that is before it, bool [n, start + n]."""
    return torch.ones(chunk.n, chunk.start + chunk.n, dtype=torch.bool, device=device).tril(chunk.start)
