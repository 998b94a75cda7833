"""The documents of a retrieval pipeline, and their index (faiss)."""

from __future__ import annotations

from collections.abc import Callable

import faiss
import torch
from torch import Tensor

_AT_ONCE = 256
"""Documents that are embedded together: enough for full products, little enough for any memory."""


def draw_documents(seed: int, documents: int, tokens: int, vocabulary: int) -> Tensor:
    """Documents as token ids, int32 [documents, tokens]: the same on every machine."""
    return torch.randint(0, vocabulary, (documents, tokens), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


class Index:
    """Exact inner-product search on the CPU over `documents`, int32 [documents, tokens], by their vectors of length 1."""

    @torch.inference_mode()
    def __init__(self, documents: Tensor, embed: Callable[[Tensor], Tensor], device: str) -> None:
        """`embed`: token ids int64 [texts, tokens] on `device` → vectors [texts, width]."""
        self.documents = documents
        parts = (documents[at : at + _AT_ONCE] for at in range(0, len(documents), _AT_ONCE))
        vectors = torch.cat([embed(part.to(device, torch.long)).float().cpu() for part in parts]).numpy()
        faiss.omp_set_num_threads(torch.get_num_threads())
        self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def nearest(self, query: Tensor, k: int) -> Tensor:
        """The `k` documents nearest to a vector [width], the nearest first: int64 [k]."""
        _, found = self._index.search(query.float().cpu().numpy()[None], k)
        return torch.from_numpy(found[0])
