"""The repository of a Llama-shaped model on Triton's TensorRT-LLM backend, for NVIDIA's `tritonserver:YY.MM-trtllm-python-py3`.

An engine with random weights is built by the image's `trtllm-build` from the model's dimensions alone. Requests are token ids, batched in
flight; each response brings the next token.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.models import Llama
from plumbline.harness.inference.load.prompts import Prompt
from plumbline.harness.inference.load.wire import Tensor, Wire
from plumbline.harness.inference.server.backends import repository
from plumbline.harness.inference.server.backends.repository import (
    Config,
    Input,
    Repository,
    config_of,
    needs_precision,
    version_folder,
)
from plumbline.harness.measurement import TrialFailed

MODEL = "chat"
BUILDER = "trtllm-build"
_BUILD_WITHIN_S = 3600.0
_NO_END = -1
"""As the end of text's id: no token ends the answer before it is as long as asked."""


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository, with its engine; `threads` says nothing to a model on a GPU."""
    shape = repository.llama_of(workload)
    needs_precision(workload, repository.DTYPES, "an engine of random weights can be built in these")
    if workload.requests.text:
        raise TrialFailed("bad_declaration", "requests.text on server.backend tensorrtllm, which takes token ids; expected text: false")
    if workload.needs.count > 1:
        raise TrialFailed(
            "bad_declaration",
            f"needs.count {workload.needs.count} on server.backend tensorrtllm: one server process drives one GPU; expected 1",
        )
    engine = folder.with_name(f"{folder.name}-engine")
    engine.mkdir(parents=True, exist_ok=True)
    declared = engine / "declared.json"
    declared.write_text(json.dumps(checkpoint_config(shape), indent=2) + "\n", encoding="utf-8")
    _build(declared, engine, workload)
    version_folder(folder, _config(workload, engine))
    wire = Wire("stream", MODEL, {"output_ids": 4}, index=None)

    def body(number: int, prompt: Prompt, output_tokens: int) -> bytes:
        one = {"input_lengths": len(prompt.ids), "request_output_len": output_tokens, "end_id": _NO_END}
        return wire.body(
            number,
            [
                Tensor("input_ids", "INT32", (1, len(prompt.ids)), prompt.ids.astype("<i4").tobytes()),
                *(Tensor(name, "INT32", (1, 1), np.array([value], "<i4").tobytes()) for name, value in one.items()),
                Tensor("streaming", "BOOL", (1, 1), b"\x01"),
            ],
        )

    return Repository(folder, MODEL, "tensorrtllm", wire, body)


def checkpoint_config(shape: Llama) -> dict[str, Any]:
    """config.json of a TensorRT-LLM checkpoint."""
    return {
        "architecture": "LlamaForCausalLM",
        "dtype": repository.DTYPES[shape.precision],
        "logits_dtype": "float32",
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_size": shape.width // shape.heads,
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "hidden_act": "silu",
        "position_embedding_type": "rope_gpt_neox",
        "rotary_base": repository.ROTARY_BASE,
        "norm_epsilon": repository.EPSILON,
        "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1},
        "quantization": {"quant_algo": "FP8" if shape.precision == "fp8" else None, "kv_cache_quant_algo": None},
    }


def _build(declared: Path, engine: Path, workload: InferenceWorkload) -> None:
    builder = shutil.which(BUILDER)
    if builder is None:
        raise TrialFailed(
            "image_error", f"no {BUILDER} on PATH to build the engine with; the tritonserver image with TensorRT-LLM brings it"
        )
    command = [
        *(builder, "--model_config", str(declared), "--output_dir", str(engine)),
        *("--max_batch_size", str(workload.server.sequences), "--max_seq_len", str(workload.model.context)),
        *("--max_input_len", str(workload.requests.prompt_lengths.longest)),
        *("--gemm_plugin", "auto", "--kv_cache_type", "paged", "--use_paged_context_fmha", "enable"),
    ]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_BUILD_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrialFailed("timeout", f"{BUILDER} built no engine within {_BUILD_WITHIN_S:g}s") from error
    if done.returncode:
        output = " | ".join(done.stdout.strip().splitlines()[-5:])
        raise TrialFailed("image_error", f"{BUILDER} ended with exit code {done.returncode}: {output}")


def _config(workload: InferenceWorkload, engine: Path) -> Config:
    return config_of(
        MODEL,
        "tensorrtllm",
        [
            Input("input_ids", "INT32", (-1,), ragged=True),
            Input("input_lengths", "INT32", scalar=True),
            Input("request_output_len", "INT32"),
            Input("end_id", "INT32", scalar=True, optional=True),
            Input("streaming", "BOOL", optional=True),
        ],
        [("output_ids", "INT32", (-1, -1))],
        kind="CPU",  # the backend takes the GPU itself
        batch=workload.server.sequences,
        decoupled=True,
        parameters={
            "gpt_model_type": "inflight_fused_batching",
            "gpt_model_path": str(engine),
            "batch_scheduler_policy": "max_utilization",
            "max_beam_width": 1,
            "exclude_input_in_output": "true",
            "enable_kv_cache_reuse": "false" if workload.server.prefix_cache == "off" else "true",
        },
    )
