"""What vLLM and TensorRT-LLM are told of a Llama-shaped model with dummy weights: a configuration as Hugging Face's hub has it, a tokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.models import Llama
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.tokenizer import FILE as TOKENIZER

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "bfloat16"}
"""The type of the arithmetic at each precision; fp8 is what the weights are quantised to."""
EPSILON, ROTARY_BASE = 1e-5, 10_000.0


def llama_of(workload: InferenceWorkload) -> Llama:
    """The workload's model, which its declaration promises to be a Llama."""
    assert isinstance(workload.model, Llama)
    return workload.model


def hub_config(shape: Llama) -> dict[str, Any]:
    """config.json of a model on the hub. The end of text is an id past the vocabulary, which no model can produce: lengths are forced."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "hidden_act": "silu",
        "rms_norm_eps": EPSILON,
        "rope_theta": ROTARY_BASE,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "torch_dtype": DTYPES[shape.precision],
        "eos_token_id": shape.vocabulary,
    }


def write_hub_folder(workload: InferenceWorkload, folder: Path) -> None:
    """A folder as a download from the hub would leave it, without weights.

    Prompts that are declared as token ids get a tokenizer to which the words "17 4711" are the ids 17 and 4711: these servers take text
    only, and so each is asked for exactly the declared tokens at next to no cost.
    """
    shape = llama_of(workload)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", hub_config(shape))
    _write(folder / "generation_config.json", {"eos_token_id": shape.vocabulary})
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": shape.context,
            "clean_up_tokenization_spaces": False,
            **({} if workload.requests.text else {"eos_token": "</s>"}),
        },
    )
    if workload.requests.text:
        shutil.copyfile(TOKENIZER, folder / "tokenizer.json")
    else:
        _write(folder / "tokenizer.json", _ids_as_words(shape.vocabulary), indent=None)


def prompt_text(prompt: Prompt) -> str:
    """The prompt as the folder's tokenizer wants it."""
    return prompt.text if prompt.text is not None else " ".join(map(str, prompt.ids.tolist()))


def _ids_as_words(vocabulary: int) -> dict[str, Any]:
    end = {
        "id": vocabulary,
        "content": "</s>",
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {str(i): i for i in range(vocabulary)}, "unk_token": "0"},
    }


def _write(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    path.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")
