"""A Triton model repository: its configuration, its version folder, and the dummy-weight Hugging Face folder of Llama models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from plumbline.declarations import InferenceWorkload, digest
from plumbline.declarations.workloads.models import Llama
from plumbline.harness.inference.load.prompts import TOKENIZER_FILE as TOKENIZER
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import Tensor, Wire

Config = Any  # tritonclient's messages have no types
Inputs = Callable[[int, Prompt, int], list[Tensor]]
"""(number, prompt, output tokens) → the request's tensors."""


@dataclass(frozen=True)
class Repository:
    """A repository in `folder` whose `model` is served by Triton's `backend`; requests have the `inputs` and are answered as `wire` says.
    `variables`: of the server's environment. `about`: what a model that reports nothing about itself is known to be."""

    folder: Path
    model: str
    backend: str
    wire: Wire
    inputs: Inputs
    variables: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def body(self, number: int, prompt: Prompt, output_tokens: int) -> bytes:
        """Request `number`, serialised."""
        return self.wire.body(number, self.inputs(number, prompt, output_tokens))


@dataclass(frozen=True)
class Input:
    """A tensor that the model takes; -1 in `dims` is any size, the batch's dimension is not among them."""

    name: str
    kind: str
    dims: tuple[int, ...] = (1,)
    optional: bool = False
    ragged: bool = False


def config_of(
    model: str,
    backend: str,
    inputs: Iterable[Input],
    outputs: Iterable[tuple[str, str, tuple[int, ...]]],
    *,
    kind: str,
    batch: int = 0,
    decoupled: bool = False,
    parameters: Mapping[str, str | int] | None = None,
) -> Config:
    """A model's configuration. Names of types and kinds are without their prefix: INT32, CPU. `batch` 0: Triton does not batch; else it
    puts together what waits, up to so many requests of one shape (of any if ragged)."""
    config = model_config_pb2.ModelConfig(name=model, backend=backend, max_batch_size=batch)
    for tensor in inputs:
        config.input.add(
            name=tensor.name,
            data_type=f"TYPE_{tensor.kind}",
            dims=tensor.dims,
            optional=tensor.optional,
            allow_ragged_batch=tensor.ragged,
        )
    for name, kind_, dims in outputs:
        config.output.add(name=name, data_type=f"TYPE_{kind_}", dims=dims)
    config.instance_group.add(count=1, kind=f"KIND_{kind}")
    if decoupled:
        config.model_transaction_policy.decoupled = True
    if batch:
        config.dynamic_batching.SetInParent()
    for key, value in (parameters or {}).items():
        config.parameters[key].string_value = str(value)
    return config


def version_folder(folder: Path, config: Config) -> Path:
    """Write config.pbtxt and return the folder of the model's only version."""
    version: Path = folder / config.name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (folder / config.name / "config.pbtxt").write_text(text_format.MessageToString(config), encoding="utf-8")
    return version


def needs_precision(workload: InferenceWorkload, able: Iterable[str], why: str) -> None:
    """TrialFailed("bad_declaration") unless the model's precision is one of `able`."""
    if workload.model.precision not in (able := tuple(able)):
        raise TrialFailed(
            "bad_declaration",
            f"model.precision {workload.model.precision} on server.backend {workload.server.backend}: {why}; expected one of {', '.join(able)}",
        )


def hash_of(workload: InferenceWorkload, **made_from: str) -> str:
    """Hash of the backend, the model's declaration and what else it is made from."""
    return digest({"backend": workload.server.backend, "model": workload.model.model_dump(mode="json"), **made_from})


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
