"""The repository of an inference engine behind the project's own model on Triton's Python backend (models/generation.py)."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.checkpoints import UNQUANTISED
from plumbline.harness import engine_python
from plumbline.harness.inference import models
from plumbline.harness.inference.load import model_wires
from plumbline.harness.inference.server.backends import repository
from plumbline.harness.inference.server.backends.repository import Input, Repository, config_of, hash_of, version_folder
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import CACHED_TOKENS, COUNT, INPUT_TOKENS, SERVER_TIMES, TOKENS, Tensor
from plumbline.whole_file import sha256_file

MODEL = "chat"
_GIB = 2**30


@dataclass(frozen=True)
class Weights:
    """The weights that an engine loads. `folder`: configuration and tokenizer in Hugging Face's layout, with weights unless `dummy`; `context`: in tokens."""

    folder: Path
    dummy: bool
    context: int

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer.json"

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json; of a model with several parts that of its text part."""
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        text = config.get("text_config")
        return {**config, **text} if isinstance(text, dict) else config

    @property
    def quantised(self) -> bool:
        """Whether the files say how they are quantised."""
        return "quantization_config" in self.config

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values at two bytes each, an upper bound for models with compressed caches."""
        c = self.config
        heads = int(c.get("num_attention_heads", 1))
        size = int(c.get("head_dim") or int(c.get("hidden_size", 0)) // heads)
        return 4 * int(c.get("num_hidden_layers", 1)) * int(c.get("num_key_value_heads") or heads) * size


def weights_of(workload: InferenceWorkload, checkpoint: Path, quantises: tuple[str, ...] = ()) -> Weights:
    """A checkpoint's. `quantises`: precisions to which the engine itself brings weights that are not quantised.

    TrialFailed("bad_declaration") if its context is neither declared nor in its configuration, and for a precision that neither the files
    nor the engine have."""
    loaded = Weights(checkpoint, dummy=False, context=0)
    context = workload.model.context or loaded.config.get("max_position_embeddings")
    if not context:
        raise TrialFailed(
            "bad_declaration", "model.context is not declared, and config.json has no max_position_embeddings; expected model.context"
        )
    precision = workload.model.precision
    if (
        precision not in UNQUANTISED
        and not loaded.quantised
        and precision not in quantises
        and "quantization" not in workload.server.engine_args
    ):
        raise TrialFailed(
            "bad_declaration",
            f"model.precision {precision}, but the checkpoint is not quantised, and server.backend {workload.server.backend} does not quantise it; "
            f"expected a checkpoint in {precision}, or one of {', '.join((*UNQUANTISED, *quantises))}",
        )
    return replace(loaded, context=int(context))


def dummy(workload: InferenceWorkload, folder: Path) -> Weights:
    """Dummy weights of the declared shape; their folder lies beside the repository, because Triton takes every folder there for a model."""
    hub = folder.with_name(f"{folder.name}-hub")
    repository.write_hub_folder(workload, hub)
    return Weights(hub, dummy=True, context=repository.llama_of(workload).context)


def kv_cache_gib(workload: InferenceWorkload, weights: Weights) -> int:
    """Whole GiB for the keys and values of all sequences at full length, at least 1."""
    return max(1, math.ceil(workload.server.sequences * weights.context * weights.kv_bytes_per_token / _GIB))


def write(
    workload: InferenceWorkload,
    folder: Path,
    engine: str,
    weights: Weights,
    threads: int,
    engine_args: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
) -> Repository:
    """The repository of `engine` (a name of models.engine_sources). `variables`: of its environment, where they are not set already."""
    text, python = workload.requests.text, engine_python.describe()
    settings = {
        "engine_args": dict(engine_args),
        "context": weights.context,
        "text": text,
        "tokenizer": str(weights.tokenizer),
        # OpenAI-compatible servers add them to a completion's prompt; the shipped tokenizer has none.
        "special_tokens": not weights.dummy,
        # Dummy weights can choose no end of text: it is an id past the vocabulary.
        "end_of_text": not weights.dummy,
        "adapters": workload.server.adapter_paths,
        "device": "cpu" if workload.needs.accelerator == "cpu" else "cuda",
        "threads": threads,
        "parameters": getattr(workload.model, "parameters", None),
        "python": _without_locale(python.executable),
        "search_path": [_without_locale(path) for path in python.search_path] if python.apart else [],
        "variables": dict(variables or {}),
    }
    config = config_of(
        MODEL,
        "python",
        [
            Input("PROMPT_IDS", "INT32", (-1,), optional=text),
            *([Input("PROMPT", "UINT8", (-1,), optional=True)] if text else []),
            Input("MAX_TOKENS", "INT32"),
            Input("NATURAL", "INT32", optional=True),
            Input("ADAPTER", "UINT8", (-1,), optional=True),
            Input("SCORE", "INT32", optional=True),
        ],
        [
            (TOKENS, "INT32", (-1,)),
            (COUNT, "INT32", (1,)),
            *([("TEXT", "UINT8", (-1,))] if text else []),
            (SERVER_TIMES, "FP64", (5,)),
            (INPUT_TOKENS, "INT32", (1,)),
            (CACHED_TOKENS, "INT32", (1,)),
            (model_wires.LOG_PROBABILITIES, "FP32", (-1,)),
            (model_wires.GREEDY, "INT32", (-1,)),
        ],
        kind="CPU",  # the engine takes its devices itself
        decoupled=True,
        parameters={"settings": json.dumps(settings, sort_keys=True)},
    )
    version = version_folder(folder, config)
    for name, source in models.engine_sources(engine).items():
        shutil.copyfile(source, version / name)
    natural, adapters = workload.requests.output == "natural", list(workload.server.adapters or ())
    streamed = replace(model_wires.generation(MODEL, text), natural=natural)

    def inputs(number: int, prompt: Prompt, output_tokens: int) -> list[Tensor]:
        adapter = adapters[number % len(adapters)] if adapters else ""
        return model_wires.generation_inputs(prompt, output_tokens, natural=natural, adapter=adapter)

    return Repository(folder, MODEL, "python", streamed, inputs)


def write_path(workload: InferenceWorkload, folder: Path, weights: Weights, threads: int) -> Repository:
    """The repository of an engine that computes nothing and answers as those on this protocol do."""
    return write(workload, folder, "path", weights, threads, {})


def _without_locale(path: str) -> str:
    """The path as Triton's Python reads it, which takes every letter beyond ASCII for bytes."""
    return os.fsencode(path).decode("ascii", "surrogateescape")


def model_hash(workload: InferenceWorkload, engine: str) -> str:
    """Hash of the model's declaration and of the source that serves it."""
    sources = sorted(models.engine_sources(engine).items())
    return hash_of(workload, **{name: sha256_file(path) for name, path in sources})
