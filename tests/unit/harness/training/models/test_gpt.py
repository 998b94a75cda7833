"""The transformer: as many parameters as declared, causal, the same from the same seed."""

from __future__ import annotations

import pytest
import torch

from plumbline.declarations.workloads.models import TransformerShape
from plumbline.harness.training.models import build_model

SHAPES = [
    TransformerShape(architecture="gpt", layers=1, width=8, heads=1, vocabulary=16, context=8),
    TransformerShape(architecture="gpt", layers=3, width=48, heads=4, vocabulary=300, context=32, seed=1),
]


def numbers(shape: TransformerShape) -> dict[str, int]:
    return shape.model_dump(mode="json")


@pytest.mark.parametrize("shape", SHAPES)
def test_has_the_declared_number_of_parameters(shape: TransformerShape) -> None:
    assert sum(p.numel() for p in build_model(numbers(shape)).parameters()) == shape.parameters


def test_no_position_sees_a_later_token() -> None:
    model = build_model(numbers(SHAPES[1])).eval()
    ids = torch.arange(20).unsqueeze(0)
    changed = ids.clone()
    changed[0, 12:] = 299
    before, after = model(ids), model(changed)
    torch.testing.assert_close(before[0, :12], after[0, :12])
    assert not torch.allclose(before[0, 12:], after[0, 12:])


def test_an_earlier_token_and_its_position_matter() -> None:
    model = build_model(numbers(SHAPES[1])).eval()
    ids = torch.arange(10).unsqueeze(0)
    swapped = ids[:, [1, 0, *range(2, 10)]]
    assert not torch.allclose(model(ids)[0, -1], model(swapped)[0, -1])


def test_weights_follow_from_the_seed_alone() -> None:
    torch.manual_seed(99)
    first = build_model(numbers(SHAPES[1])).state_dict()
    torch.manual_seed(5)
    again = build_model(numbers(SHAPES[1])).state_dict()
    other = build_model({**numbers(SHAPES[1]), "seed": 2}).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
