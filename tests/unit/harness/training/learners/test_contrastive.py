"""Pairs of texts: the loss is InfoNCE, falls, and does not depend on the order of texts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

BERT = {"architecture": "bert", "layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "vocabulary": 512, "context": 32}
CHANGED: dict[str, Any] = {"model": BERT, "task": {"kind": "contrastive", "temperature": 0.1}, "batch": {"micro": 16, "sequence": 16}}


def test_the_loss_falls_from_chance(learned: Any) -> None:
    _, losses = learned(30, **CHANGED)
    assert losses[0] < 1.5 * math.log(16)
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_each_text_is_held_against_all_partners(learned: Any) -> None:
    learner, _ = learned(0, **CHANGED)
    (pairs,) = learner.batch(0)
    with torch.no_grad():
        first, second = (torch.nn.functional.normalize(learner.model(pairs[:, side]), dim=-1) for side in (0, 1))
        likeness = first @ second.T / 0.1
        expected = -torch.log_softmax(likeness, dim=1).diagonal().mean()
        torch.testing.assert_close(learner.loss(learner.model, (pairs,)), expected)


@pytest.mark.parametrize("same", [True, False])
def test_partners_that_are_the_same_text_cost_little(learned: Any, same: bool) -> None:
    learner, _ = learned(0, **CHANGED)
    (pairs,) = learner.batch(0)
    partners = pairs[:, 0] if same else pairs[:, 0].roll(1, dims=0)
    with torch.no_grad():
        loss = learner.loss(learner.model, (torch.stack([pairs[:, 0], partners], dim=1),))
    assert (loss < math.log(16)) == same
