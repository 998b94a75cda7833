"""The documents and their vectors. Search is exact: every inner product is computed, and the largest are taken.

It lies in Triton's model repository beside `model.py` and imports nothing but torch. Documents are drawn from a seed; their vectors are
those of the embedding model, which has the same weights wherever it is built.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_AT_ONCE = 256
"""Documents that are embedded together: enough for full products, little enough for any memory."""


def drawn(seed: int, documents: int, tokens: int, vocabulary: int) -> Tensor:
    """Documents as token ids, int32 [documents, tokens]: the same on every machine."""
    return torch.randint(0, vocabulary, (documents, tokens), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


class Index:
    """`documents` int32 [documents, tokens] on the CPU; `vectors` float32 [documents, width], of length 1, where the model is."""

    @torch.inference_mode()
    def __init__(self, documents: Tensor, embed: Callable[[Tensor], Tensor], device: str) -> None:
        """`embed`: token ids int64 [texts, tokens] on `device` → vectors [texts, width]."""
        self.documents = documents
        parts = (documents[at : at + _AT_ONCE] for at in range(0, len(documents), _AT_ONCE))
        self.vectors = torch.cat([embed(part.to(device, torch.long)) for part in parts])

    @torch.inference_mode()
    def nearest(self, query: Tensor, k: int) -> Tensor:
        """The `k` documents nearest to a vector [width], the nearest first: int64 [k] on the CPU."""
        return (self.vectors @ query.to(self.vectors)).topk(k).indices.cpu()
