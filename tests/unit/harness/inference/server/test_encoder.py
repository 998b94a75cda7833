from __future__ import annotations

import pytest
import torch

from plumbline.declarations.workloads.models import Encoder as Declared
from plumbline.harness.inference.models.encoder import PATCH_BYTES, seeded
from plumbline.harness.inference.models.precision import in_precision

SHAPE = {"layers": 2, "width": 32, "heads": 4, "vocabulary": 97, "context": 24}


def text(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 97, (n,), generator=torch.Generator().manual_seed(seed))


def image(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (n, PATCH_BYTES), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@pytest.mark.parametrize("task", ["embedding", "reranking", "vision"])
def test_padding_changes_nothing(task: str) -> None:
    model = seeded(3, task=task, **SHAPE)
    texts = [(image if task == "vision" else text)(n, n) for n in (3, 9, 5)]
    with torch.inference_mode():
        alone = torch.cat([model(ids[None]) for ids in texts])
        padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=50)
        together = model(padded, torch.tensor([3, 9, 5]))
    assert torch.allclose(alone, together, atol=1e-5)
    assert not torch.allclose(alone[0], alone[1], atol=1e-3), "outputs that are all alike prove nothing"


def test_vectors_have_length_one_and_scores_are_one_number() -> None:
    ids = torch.stack([text(7, 1), text(7, 2)])
    with torch.inference_mode():
        vectors, scores = seeded(3, task="embedding", **SHAPE)(ids), seeded(3, task="reranking", **SHAPE)(ids)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(2))
    assert vectors.shape == (2, 32) and scores.shape == (2, 1)


def test_attention_sees_both_directions() -> None:
    """A change of the last token changes what the first one contributes: pooled without the last, outputs still differ."""
    model = seeded(3, task="embedding", **SHAPE)
    one, other = text(6, 1), text(6, 1)
    other[-1] = (other[-1] + 1) % 97
    block = model.blocks[0]
    with torch.inference_mode():
        a, b = (block(model.token(ids[None]), None)[0, 0] for ids in (one, other))
    assert not torch.equal(a, b)


@pytest.mark.parametrize("task", ["embedding", "reranking", "vision"])
def test_the_encoder_has_the_parameters_that_its_declaration_counts(task: str) -> None:
    declared = Declared.model_validate({"architecture": "encoder", "task": task, "seed": 3, **SHAPE})
    assert sum(p.numel() for p in seeded(3, task=task, **SHAPE).parameters()) == declared.parameters


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_smaller_precision_points_the_same_way(precision: str) -> None:
    ids = torch.stack([text(12, i) for i in range(8)])
    with torch.inference_mode():
        exact = seeded(3, task="embedding", **SHAPE)(ids)
        served = in_precision(seeded(3, task="embedding", **SHAPE), precision)(ids)
    assert torch.nn.functional.cosine_similarity(exact, served).min() > 0.99


def test_it_can_be_traced_with_another_length() -> None:
    model = seeded(3, task="embedding", **SHAPE)
    with torch.inference_mode():
        traced = torch.jit.trace(model, text(7)[None])
        for n in (3, 11):
            ids = torch.stack([text(n, 1), text(n, 2)])
            assert torch.allclose(traced(ids), model(ids), atol=1e-5)
