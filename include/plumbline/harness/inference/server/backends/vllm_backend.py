"""The repository of NVIDIA's own vLLM backend for Triton (`backends/vllm` of `tritonserver:YY.MM-vllm-python-py3`): text in, text and counts out.

https://github.com/triton-inference-server/vllm_backend describes the tensors. It reports no times of its own and no cached tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.declarations import InferenceWorkload
from plumbline.harness import engine_python
from plumbline.harness.inference.server.backends.generation import MODEL, Weights
from plumbline.harness.inference.server.backends.repository import Input, Inputs, Repository, config_of, prompt_text, version_folder
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import ANY, Tensor, Wire

BACKEND = "vllm"
COUNTS = "return_num_output_tokens"
"""The input that asks for the number of tokens of each response; backends before 24.12 do not know it."""
_TEXT, _READ, _BROUGHT = "text_output", "num_input_tokens", "num_output_tokens"


def write(
    workload: InferenceWorkload, folder: Path, weights: Weights, engine_args: Mapping[str, Any], variables: Mapping[str, str]
) -> Repository:
    """The repository; `engine_args` become the backend's model.json. `variables`: of the server's environment."""
    config = config_of(
        MODEL,
        BACKEND,
        [
            Input("text_input", "STRING"),
            Input("stream", "BOOL", optional=True),
            Input("sampling_parameters", "STRING", optional=True),
            Input(f"return_{_READ}", "BOOL", optional=True),
            Input(COUNTS, "BOOL", optional=True),
        ],
        [(_TEXT, "STRING", (-1,)), (_READ, "UINT32", (1,)), (_BROUGHT, "UINT32", (-1,))],
        kind="MODEL",  # the engine takes its devices itself
        decoupled=True,
    )
    version = version_folder(folder, config)
    # The backend decodes what it sends, also of a model that is asked by words for its ids.
    settings = {**engine_args, "skip_tokenizer_init": False}
    (version / "model.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if adapters := workload.server.adapter_paths:
        (version / "multi_lora.json").write_text(json.dumps(adapters, indent=2) + "\n", encoding="utf-8")
    natural = workload.requests.output == "natural"
    wire = Wire("stream", MODEL, {_TEXT: ANY, _BROUGHT: 4}, {_READ: 4}, index=None, tokens=_BROUGHT, read=_READ, natural=natural)
    about = {
        "engine": "vllm",
        "engine_version": engine_python.describe().version("vllm"),
        "gpu_memory_utilization": engine_args["gpu_memory_utilization"],
    }
    inputs = _inputs(tuple(adapters), natural=natural, end_of_text=not weights.dummy)
    return Repository(folder, MODEL, BACKEND, wire, inputs, variables, about)


def _inputs(adapters: tuple[str, ...], *, natural: bool, end_of_text: bool) -> Inputs:
    def inputs(number: int, prompt: Prompt, output_tokens: int) -> list[Tensor]:
        sampling: dict[str, Any] = {"temperature": 0, "max_tokens": output_tokens}
        if not natural:
            sampling |= {"ignore_eos": True, **({"min_tokens": output_tokens} if end_of_text else {})}
        if adapters:
            sampling["lora_name"] = adapters[number % len(adapters)]
        return [
            _string("text_input", prompt_text(prompt)),
            _string("sampling_parameters", json.dumps(sampling)),
            *(Tensor(name, "BOOL", np.array([True])) for name in ("stream", f"return_{_READ}", COUNTS)),
        ]

    return inputs


def _string(name: str, text: str) -> Tensor:
    return Tensor(name, "BYTES", np.array([text.encode()], np.object_))
