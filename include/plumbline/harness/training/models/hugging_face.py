"""Models built from `transformers`: Llama and hub causal LMs, BERT text encoders, ViT image classifiers. The library is imported by the builders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class CausalLm(nn.Module):
    """Token ids (batch, sequence) int64 → logits (batch, sequence, vocabulary)."""

    def __init__(self, lm: nn.Module) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, ids: Tensor, cache: Any = None) -> Tensor:
        """With a `cache`, the ids follow those that it has seen, and it remembers them too."""
        # Asked for nothing, the library would fill a cache in each training step.
        logits: Tensor = self.lm(input_ids=ids, past_key_values=cache, use_cache=cache is not None).logits
        return logits

    def new_cache(self) -> Any:
        """Keys and values of no token yet."""
        from transformers.cache_utils import DynamicCache

        return DynamicCache(config=self.lm.config)


_COMMON = {"hidden_size": "width", "intermediate_size": "feed_forward", "num_hidden_layers": "layers", "num_attention_heads": "heads"}


def _dimensions(shape: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    # Attention always goes through torch's scaled dot product: which of its kernels attends is the loop's to say.
    return {**{name: shape[key] for name, key in _COMMON.items()}, "attn_implementation": "sdpa", **more}


def build_llama(shape: Mapping[str, Any]) -> CausalLm:
    """Weights from torch's current generator."""
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    text = {"vocab_size": shape["vocabulary"], "max_position_embeddings": shape["context"], "bos_token_id": None, "eos_token_id": None}
    return CausalLm(LlamaForCausalLM(LlamaConfig(**_dimensions(shape, num_key_value_heads=shape["kv_heads"], **text))))


def build_hub_model(shape: Mapping[str, Any]) -> CausalLm:
    """The LM in the shape's `folder`, its weights in fp32. The network is left alone."""
    from transformers import AutoModelForCausalLM

    return CausalLm(
        AutoModelForCausalLM.from_pretrained(shape["folder"], dtype=torch.float32, attn_implementation="sdpa", local_files_only=True)
    )


class TextEncoder(nn.Module):
    """Token ids (batch, sequence) int64 → one vector a text (batch, width): the mean over its tokens."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: Tensor) -> Tensor:
        states: Tensor = self.bert(input_ids=ids).last_hidden_state
        return states.mean(dim=1)


def build_bert(shape: Mapping[str, Any]) -> TextEncoder:
    """Weights from torch's current generator. Without dropout, so that nothing is random."""
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertModel

    text = {"vocab_size": shape["vocabulary"], "max_position_embeddings": shape["context"], "pad_token_id": None}
    config = BertConfig(**_dimensions(shape, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **text))
    return TextEncoder(BertModel(config, add_pooling_layer=False))


class ImageClassifier(nn.Module):
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


def build_vit(shape: Mapping[str, Any]) -> ImageClassifier:
    """Weights from torch's current generator."""
    from transformers.models.vit.configuration_vit import ViTConfig
    from transformers.models.vit.modeling_vit import ViTForImageClassification

    image = {"image_size": shape["image"], "patch_size": shape["patch"], "num_channels": 3, "num_labels": shape["classes"]}
    return ImageClassifier(ViTForImageClassification(ViTConfig(**_dimensions(shape, **image))))
