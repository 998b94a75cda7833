"""The encoder with nothing computed: each text gets the same answer at once, so that what is measured is the path around the model.

It takes the place of `encoder.py` in Triton's model repository."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    """Token ids [texts, tokens] or bytes of pixels [images, patches, bytes] → float32 [texts, width], or [texts, 1] (task reranking)."""

    def __init__(self, *, task: str, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.context = context
        # Multiplied, so that the answer is of the model's type and place: one small product, no matrix.
        self.answer = nn.Parameter(torch.nn.functional.one_hot(torch.tensor(0), 1 if task == "reranking" else width).float())

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """`lengths` is not used: no token is read."""
        return self.answer.float().expand(ids.shape[0], -1).clone()


def seeded(seed: int, device: str = "cpu", *, task: str, **shape: int) -> Encoder:
    """`seed` is not used: no weight is drawn."""
    return Encoder(task=task, **shape).eval().to(device)
