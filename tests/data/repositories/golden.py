"""The repositories that the golden files show, and how they are written again: `PYTHONPATH=include:. python -m tests.data.repositories.golden`, then read the diff.

Exported models are left out: they are made, not written.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from google.protobuf import text_encoding
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.harness import engine_python
from plumbline.harness.inference.server import backends
from plumbline.harness.measurement import TrialFailed

FOLDER = Path(__file__).parent
LLAMA = {
    "architecture": "llama",
    "layers": 2,
    "width": 64,
    "heads": 4,
    "kv_heads": 2,
    "feed_forward": 128,
    "vocabulary": 24,
    "context": 128,
}
ENCODER = {"architecture": "encoder", "task": "embedding", "layers": 2, "width": 32, "heads": 4, "vocabulary": 24, "context": 128}
_OF_TEXT = ENCODER | {"vocabulary": 2048}
RETRIEVAL = {
    "documents": 100,
    "document_tokens": 16,
    "candidates": 12,
    "top": 4,
    "embedding": _OF_TEXT,
    "reranking": _OF_TEXT | {"task": "reranking", "width": 16},
    "seed": 3,
}
ONE = {"output_tokens": {"constant": 1}}
GPU = {"accelerator": "nvidia", "count": 1}
CASES: dict[str, dict[str, Any]] = {
    "python-chat": {},
    "python-chat-text": {"requests": {"text": True, "input_tokens": {"constant": 16}}, "server": {"sequences": 8, "prefix_cache": "cold"}},
    "python-embedding": {"model": ENCODER, "requests": ONE, "server": {"sequences": 16}},
    "python-reranking-gpu": {"model": ENCODER | {"task": "reranking"}, "requests": ONE, "needs": GPU},
    "python-retrieval": {"retrieval": RETRIEVAL, "requests": {"text": True, "input_tokens": {"constant": 16}}, "server": {"sequences": 8}},
    "vllm": {"model": LLAMA, "server": {"backend": "vllm"}, "needs": GPU},
    "vllm-fp8-two-gpus": {
        "model": LLAMA | {"precision": "fp8"},
        "server": {"backend": "vllm", "prefix_cache": "cold", "sequences": 256},
        "needs": GPU | {"count": 2},
    },
    "vllm-options": {
        "model": LLAMA,
        "server": {
            "backend": "vllm",
            "engine_args": {"max_num_batched_tokens": 4096, "compilation_config": {"level": 3}},
            "parallel": {"tensor": 2, "data": 2, "expert": 4},
            "speculative": {"method": "ngram", "tokens": 5},
            "kv_cache_precision": "fp8",
        },
        "needs": GPU | {"count": 4},
    },
    "vllm-own-backend": {"model": LLAMA, "server": {"backend": "vllm", "triton_backend": "vllm", "prefix_cache": "cold"}, "needs": GPU},
    "tensorrtllm-options": {
        "model": LLAMA,
        "server": {
            "backend": "tensorrtllm",
            "engine_args": {"kv_cache_config": {"free_gpu_memory_fraction": 0.8}, "enable_chunked_prefill": True},
            "parallel": {"tensor": 2, "pipeline": 2, "expert": 2},
            "speculative": {"method": "eagle3", "tokens": 3, "model": "/models/eagle"},
            "kv_cache_precision": "fp8",
        },
        "needs": GPU | {"count": 4},
    },
    "tensorrtllm": {"model": LLAMA, "server": {"backend": "tensorrtllm", "prefix_cache": "cold"}, "needs": GPU},
    "onnxruntime": {"model": ENCODER, "requests": ONE, "server": {"backend": "onnxruntime", "sequences": 32}},
}
_MADE = (".py", ".onnx", ".data")


def workload(**parts: Any) -> InferenceWorkload:
    """The shipped inference trial's workload with `parts` changed; a model is replaced."""
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    for name, values in parts.items():
        data[name] = values if name in ("model", "quality", "retrieval") else data[name] | values
    return InferenceWorkload.model_validate_json(json.dumps(data))


def written(case: str, folder: Path) -> dict[str, str]:
    """What the case's repository and the folders beside it hold, by path; `folder`'s own path stands as FOLDER."""
    # The packages that write ONNX are the image's; the configuration is written before they are missed.
    may_miss = suppress(TrialFailed) if case == "onnxruntime" else nullcontext()
    with may_miss:
        backends.write(workload(**CASES[case]), folder / "models", threads=2)
    python = engine_python.describe().executable
    # A configuration has it as bytes of ASCII in JSON, escaped once more.
    in_json = json.dumps(os.fsencode(python).decode("ascii", "surrogateescape"))[1:-1]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in _MADE)
    return {
        str(path.relative_to(folder)): path.read_text()
        .replace(str(folder), "FOLDER")
        .replace(text_encoding.CEscape(in_json, True), "PYTHON")
        .replace(python, "PYTHON")
        for path in files
        if path.name != "tokenizer.json"
    }


if __name__ == "__main__":
    for case in CASES:
        shutil.rmtree(FOLDER / case, ignore_errors=True)
        with tempfile.TemporaryDirectory() as temporary:
            for name, text in written(case, Path(temporary)).items():
                golden = FOLDER / case / name
                golden.parent.mkdir(parents=True, exist_ok=True)
                golden.write_text(text)
