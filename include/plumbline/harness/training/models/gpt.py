"""Our own decoder-only transformer: pre-norm, learned positions, untied head. Needs torch alone, so its process starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

_INIT_STDDEV = 0.02


class Attention(nn.Module):
    """Causal multi-head self-attention. Input and output: (batch, sequence, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, sequence, width = x.shape
        q, k, v = self.qkv(x).view(batch, sequence, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, sequence, width))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer: attention and a four times wider MLP, each behind its norm and beside the residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Token ids (batch, sequence) int64 → logits (batch, sequence, vocabulary). The sequence is at most `context`."""

    def __init__(self, *, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(_init_weights)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def build_gpt(shape: Mapping[str, Any]) -> Transformer:
    """Weights from torch's current generator."""
    return Transformer(**{key: shape[key] for key in ("layers", "width", "heads", "vocabulary", "context")})


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=_INIT_STDDEV)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
