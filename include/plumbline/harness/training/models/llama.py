"""Llama-shaped causal LMs: the configuration and the modules of `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from plumbline.harness.training.models.causal import CausalLm


def build(shape: Mapping[str, Any], attention: str) -> CausalLm:
    """The LM of a declared shape; weights from torch's generator as it stands.

    Attention always goes through torch's scaled dot product: which of its kernels attends is the loop's to say.
    """
    del attention
    config = LlamaConfig(
        vocab_size=shape["vocabulary"],
        hidden_size=shape["width"],
        intermediate_size=shape["feed_forward"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        max_position_embeddings=shape["context"],
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return CausalLm(LlamaForCausalLM(config))
