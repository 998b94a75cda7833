"""A bidirectional transformer: a text's tokens in, one normalised vector (embedding) or one score (reranking) out; or an image's patches in,
one normalised vector out (vision).

It lies in Triton's model repository beside `model.py` and imports nothing but torch. Weights are random from a seed. Called with ids alone
it can be traced and exported: all texts of a batch are then equally long.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PATCH_BYTES = 16 * 16 * 3


class Block(nn.Module):
    """Attention in both directions and an MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """`x` [texts, tokens, width]; `visible` bool [texts, 1, 1, tokens]: which tokens are no padding, None: all."""
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        x = x + self.proj(attended.transpose(1, 2).reshape(n, t, width))
        hidden: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return hidden


class Encoder(nn.Module):
    """Token ids [texts, tokens] → float32 [texts, width] of length 1 each (task embedding) or [texts, 1] (task reranking). Task vision: bytes of
    pixels, uint8 [images, patches, PATCH_BYTES] → float32 [images, width] of length 1 each."""

    def __init__(self, *, task: str, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.token = nn.Linear(PATCH_BYTES, width) if task == "vision" else nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, 1) if task == "reranking" else None

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """`lengths` int64 [texts]: what lies behind a text's end is padding; None: nothing is."""
        read = ids if isinstance(self.token, nn.Embedding) else ids.to(self.position.weight.dtype) / 127.5 - 1
        x = self.token(read) + self.position.weight[: ids.shape[1]]
        real = None if lengths is None else torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        for block in self.blocks:
            x = block(x, None if real is None else real[:, None, None])
        x = self.norm(x)
        pooled = x.mean(1) if real is None or lengths is None else (x * real[..., None]).sum(1) / lengths[:, None]
        if self.score is not None:
            score: Tensor = self.score(pooled.to(x.dtype)).float()
            return score
        return F.normalize(pooled.float(), dim=-1)


def seeded(seed: int, device: str = "cpu", *, task: str, **shape: int) -> Encoder:
    """An encoder in evaluation mode whose weights follow from `seed` alone, whatever the device."""
    # Without weights at first: drawing them twice would cost a large model seconds of its load.
    with torch.device("meta"):
        model = Encoder(task=task, **shape)
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
