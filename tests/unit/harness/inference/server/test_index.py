"""What is searched: documents that are the same everywhere, and exactly the nearest of them."""

from __future__ import annotations

import torch
from torch import Tensor

from plumbline.harness.inference.models.retrieval import Index, draw_documents


def test_documents_follow_from_the_seed() -> None:
    one, again, other = draw_documents(3, 50, 7, 100), draw_documents(3, 50, 7, 100), draw_documents(4, 50, 7, 100)
    assert one.shape == (50, 7) and one.dtype == torch.int32
    assert int(one.min()) >= 0 and int(one.max()) < 100
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert draw_documents(3, 1, 4, 2048)[0].tolist() == [1898, 1688, 1273, 1667], "a torch that draws others makes old series incomparable"


def test_the_nearest_of_all_and_the_nearest_first() -> None:
    seen: list[int] = []

    def embed(texts: Tensor) -> Tensor:
        seen.append(len(texts))
        angle = texts[:, 0] * torch.pi / 1000
        return torch.stack([angle.cos(), angle.sin()], 1)

    documents = torch.arange(600, dtype=torch.int32)[:, None]
    index = Index(documents, embed, "cpu")
    assert (max(seen), sum(seen)) == (256, 600), "in parts that fit any memory, the last one too"
    assert index.nearest(embed(torch.tensor([[300]]))[0], 3).tolist()[0] == 300
    assert index.nearest(embed(torch.tensor([[700]]))[0], 3).tolist() == [599, 598, 597]
