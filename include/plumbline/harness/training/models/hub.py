"""Causal LMs of the Hugging Face hub, from a folder that `weights` fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from plumbline.harness.training.models.causal import CausalLm


def build(shape: Mapping[str, Any], attention: str) -> CausalLm:
    """The LM in the shape's `folder`, its weights in fp32. The network is left alone."""
    del attention
    return CausalLm(
        AutoModelForCausalLM.from_pretrained(shape["folder"], dtype=torch.float32, attn_implementation="sdpa", local_files_only=True)
    )
