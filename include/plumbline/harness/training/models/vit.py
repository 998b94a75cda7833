"""Vision transformers: the configuration and the modules of `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers.models.vit.configuration_vit import ViTConfig
from transformers.models.vit.modeling_vit import ViTForImageClassification


class Classifier(nn.Module):
    """Images (batch, 3, edge, edge) uint8 → logits (batch, classes)."""

    def __init__(self, vit: nn.Module) -> None:
        super().__init__()
        self.vit = vit
        self._pixels = 127.5

    def forward(self, images: Tensor) -> Tensor:
        # Bytes until here: a quarter of the way to the device. The weights' own type, which a sharded model has lowered by now.
        pixels = images.to(next(self.vit.parameters()).dtype) / self._pixels - 1.0
        logits: Tensor = self.vit(pixel_values=pixels).logits
        return logits


def build(shape: Mapping[str, Any], attention: str) -> Classifier:
    """The classifier of a declared shape; weights from torch's generator as it stands."""
    del attention
    config = ViTConfig(
        image_size=shape["image"],
        patch_size=shape["patch"],
        num_channels=3,
        hidden_size=shape["width"],
        intermediate_size=shape["feed_forward"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_labels=shape["classes"],
        attn_implementation="sdpa",
    )
    return Classifier(ViTForImageClassification(config))
