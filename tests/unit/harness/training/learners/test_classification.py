"""Images into classes: the loss starts at chance and falls."""

from __future__ import annotations

import math
from typing import Any

import torch

VIT = {"architecture": "vit", "layers": 2, "width": 32, "heads": 2, "feed_forward": 64, "image": 16, "patch": 4, "classes": 4}
CHANGED: dict[str, Any] = {
    "model": VIT,
    "task": {"kind": "classification"},
    "data": {"source": "images", "images": 128, "seed": 5},
    "batch": {"micro": 16},
}


def test_the_loss_falls_from_chance(learned: Any) -> None:
    _, losses = learned(30, **CHANGED)
    assert abs(losses[0] - math.log(4)) < 0.3
    assert losses[-1] < 0.7 * losses[0]


def test_pixels_travel_as_bytes(learned: Any) -> None:
    learner, _ = learned(0, **CHANGED)
    images, classes = learner.batch(0)
    assert images.dtype == torch.uint8 and images.shape == (16, 3, 16, 16)
    assert classes.dtype == torch.int64 and classes.min() >= 0 and classes.max() < 4
