"""Models by configurations of transformers: as many parameters as declared, the same from the same seed, and what they see."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plumbline.declarations.workloads.models import BertShape, LlamaShape, VitShape
from plumbline.harness.training import models

LLAMA = LlamaShape(architecture="llama", layers=3, width=64, heads=4, kv_heads=2, feed_forward=96, vocabulary=128, context=32)
BERT = BertShape(architecture="bert", layers=3, width=32, heads=2, feed_forward=64, vocabulary=128, context=32)
VIT = VitShape(architecture="vit", layers=3, width=32, heads=2, feed_forward=64, image=16, patch=4, classes=5)
SHAPES = [LLAMA, BERT, VIT]


def build(shape: LlamaShape | BertShape | VitShape, **changed: int) -> torch.nn.Module:
    return models.build_model({**shape.model_dump(mode="json"), **changed}).eval()


def products(model: torch.nn.Module) -> int:
    """Weights of what multiplies matrices, but for the classes' head."""
    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    return sum(m.weight.numel() for name, m in model.named_modules() if isinstance(m, kinds) and "classifier" not in name)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.architecture)
def test_has_the_declared_parameters(shape: LlamaShape | BertShape | VitShape) -> None:
    model = build(shape)
    assert products(model) == shape.matmul_parameters
    if isinstance(shape, LlamaShape):
        assert sum(p.numel() for p in model.parameters()) == shape.parameters


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.architecture)
def test_weights_follow_from_the_seed_alone(shape: LlamaShape | BertShape | VitShape) -> None:
    torch.manual_seed(99)
    first = models.weights_sha256(build(shape))
    torch.manual_seed(5)
    assert models.weights_sha256(build(shape)) == first != models.weights_sha256(build(shape, seed=8))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.architecture)
def test_its_layers_are_found(shape: LlamaShape | BertShape | VitShape) -> None:
    layers = models.repeated_layers(build(shape))
    assert len(layers) == 3 and len({type(layer) for layer in layers}) == 1
    attention = sum(p.numel() for p in layers[0].parameters())
    assert attention > 4 * 32 * 32


def test_a_causal_lm_gives_plain_logits_and_no_position_sees_a_later_token() -> None:
    model = build(LLAMA)
    ids = torch.arange(20).unsqueeze(0)
    changed = ids.clone()
    changed[0, 12:] = 99
    before, after = model(ids), model(changed)
    assert isinstance(before, torch.Tensor) and before.shape == (1, 20, 128)
    torch.testing.assert_close(before[0, :12], after[0, :12])
    assert not torch.allclose(before[0, 12:], after[0, 12:])


def test_a_cache_gives_what_all_ids_at_once_give() -> None:
    model = build(LLAMA)
    ids = torch.randint(0, 128, (2, 12))
    cache = models.new_cache(model)
    parts = [model(part, cache) for part in ids.split([5, 1, 1, 5], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(ids))


def test_some_models_have_no_cache() -> None:
    gpt = {"architecture": "gpt", "layers": 1, "width": 8, "heads": 1, "vocabulary": 16, "context": 8, "seed": 1}
    assert models.new_cache(models.build_model(gpt)) is None


def test_an_encoders_vector_is_the_mean_over_all_tokens_which_see_each_other() -> None:
    model = build(BERT)
    ids = torch.randint(0, 128, (2, 12))
    vectors = model(ids)
    assert vectors.shape == (2, 32)
    torch.testing.assert_close(vectors, model.bert(input_ids=ids).last_hidden_state.mean(dim=1))
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 128
    first, other = (model.bert(input_ids=part).last_hidden_state[:, 0] for part in (ids, changed))
    assert not torch.allclose(first, other)


def test_an_encoder_in_training_leaves_nothing_to_chance() -> None:
    model = models.build_model(BERT.model_dump(mode="json")).train()
    ids = torch.randint(0, 128, (2, 12))
    assert torch.equal(model(ids), model(ids))


def test_pixels_become_numbers_around_0() -> None:
    model = build(VIT)
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    torch.testing.assert_close(model(images), model.vit(pixel_values=(images.float() - 127.5) / 127.5).logits, atol=1e-5, rtol=1e-5)


def test_a_model_of_the_hub_is_read_from_its_folder(tmp_path: Path) -> None:
    known = build(LLAMA)
    known.lm.save_pretrained(tmp_path)
    model, seconds = models.initial_model({"architecture": "hub", "id": "a/b", "seed": 7}, weights=str(tmp_path), draws=False)
    ids = torch.arange(20).unsqueeze(0)
    assert seconds is not None and seconds > 0
    assert next(model.parameters()).dtype == torch.float32 and len(models.repeated_layers(model)) == 3
    torch.testing.assert_close(model.eval()(ids), known(ids))
