"""The repository of a Llama-shaped model on Triton's vLLM backend, for NVIDIA's `tritonserver:YY.MM-vllm-python-py3` from 25.02 on.

The backend takes text, streams text, and says of each response how many tokens it brings: it hands over several at once when they come
faster than it can send.
"""

from __future__ import annotations

import json
from pathlib import Path

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.load.prompts import Prompt
from plumbline.harness.inference.load.wire import ANY, Tensor, Wire
from plumbline.harness.inference.server.backends import repository
from plumbline.harness.inference.server.backends.repository import Input, Repository, config_of, needs_precision, version_folder

MODEL = "chat"
_TOKENS = "num_output_tokens"


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository; `threads` says nothing to a model on GPUs."""
    shape = repository.llama_of(workload)
    needs_precision(workload, repository.DTYPES, "vLLM quantises dummy weights to fp8 alone, the others need a quantised checkpoint")
    config = config_of(
        MODEL,
        "vllm",
        [
            Input("text_input", "STRING"),
            Input("stream", "BOOL", optional=True),
            Input("sampling_parameters", "STRING", optional=True),
            Input("exclude_input_in_output", "BOOL", optional=True),
            Input("return_num_output_tokens", "BOOL", optional=True),
        ],
        [("text_output", "STRING", (-1,)), (_TOKENS, "UINT32", (-1,))],
        kind="MODEL",  # vLLM takes the GPUs itself
        decoupled=True,
    )
    version = version_folder(folder, config)
    # Not below the repository: Triton takes every folder there for a model.
    hub = folder.with_name(f"{folder.name}-hub")
    repository.write_hub_folder(workload, hub)
    engine = {
        "model": str(hub),
        "load_format": "dummy",
        "dtype": repository.DTYPES[shape.precision],
        "seed": shape.seed,
        "max_model_len": shape.context,
        "max_num_seqs": workload.server.sequences,
        "enable_prefix_caching": workload.server.prefix_cache != "off",
        "tensor_parallel_size": workload.needs.count,
        **({"quantization": "fp8"} if shape.precision == "fp8" else {}),
    }
    (version / "model.json").write_text(json.dumps(engine, indent=2) + "\n", encoding="utf-8")
    forced = workload.requests.output == "forced"
    wire = Wire("stream", MODEL, {"text_output": ANY, _TOKENS: 4}, index=None, tokens=_TOKENS, natural=not forced)

    def body(number: int, prompt: Prompt, output_tokens: int) -> bytes:
        # Greedy, and forced to its length whatever the model says. Ids are not turned into text that nobody asked for.
        sampling = {"max_tokens": output_tokens, "ignore_eos": forced, "temperature": 0.0, "detokenize": workload.requests.text}
        return wire.body(
            number,
            [
                _string("text_input", repository.prompt_text(prompt)),
                _yes("stream"),
                _string("sampling_parameters", json.dumps(sampling)),
                _yes("exclude_input_in_output"),
                _yes("return_num_output_tokens"),
            ],
        )

    return Repository(folder, MODEL, "vllm", wire, body)


def _string(name: str, text: str) -> Tensor:
    encoded = text.encode()
    return Tensor(name, "BYTES", (1,), len(encoded).to_bytes(4, "little") + encoded)


def _yes(name: str) -> Tensor:
    return Tensor(name, "BOOL", (1,), b"\x01")
