"""The repositories that the golden files show, and how they are written again: `PYTHONPATH=include:. python -m tests.data.repositories.golden`, then read the diff.

Engines are built by a stand-in for `trtllm-build`, and exported models are left out: both are made, not written.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
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
_QUALITY = {"reference": "bf16", "agreement": "98%"}
_BUILDER = """#!/bin/sh
# Takes the place of trtllm-build: the engine is what it was asked for.
while [ $# -gt 0 ]; do
  case $1 in --output_dir) engine=$2 ;; esac
  line="$line $1"; shift
done
echo "trtllm-build$line" >"$engine/asked.txt"
"""
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
        "quality": _QUALITY,
    },
    "tensorrtllm": {"model": LLAMA, "server": {"backend": "tensorrtllm", "prefix_cache": "cold"}, "needs": GPU},
    "onnxruntime": {"model": ENCODER, "requests": ONE, "server": {"backend": "onnxruntime", "sequences": 32}},
    "pytorch-reranking-gpu": {"model": ENCODER | {"task": "reranking"}, "requests": ONE, "server": {"backend": "pytorch"}, "needs": GPU},
}
_MADE = (".py", ".onnx", ".pt", ".data")


def workload(**parts: Any) -> InferenceWorkload:
    """The shipped inference trial's workload with `parts` changed; a model is replaced."""
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    for name, values in parts.items():
        data[name] = values if name in ("model", "quality", "retrieval") else data[name] | values
    return InferenceWorkload.model_validate_json(json.dumps(data))


@contextmanager
def builder_on_path(folder: Path, script: str = _BUILDER) -> Iterator[None]:
    """A `trtllm-build` of ours is the first on PATH until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "trtllm-build"
    program.write_text(script)
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def written(case: str, folder: Path) -> dict[str, str]:
    """What the case's repository and the folders beside it hold, by path; `folder`'s own path stands as FOLDER."""
    # The packages that write ONNX are the image's; the configuration is written before they are missed.
    may_miss = suppress(TrialFailed) if case == "onnxruntime" else nullcontext()
    with builder_on_path(folder / "bin"), may_miss:
        backends.write(workload(**CASES[case]), folder / "models", threads=2)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in _MADE and path.parent.name != "bin")
    return {
        str(path.relative_to(folder)): path.read_text().replace(str(folder), "FOLDER") for path in files if path.name != "tokenizer.json"
    }


if __name__ == "__main__":
    for case in CASES:
        shutil.rmtree(FOLDER / case, ignore_errors=True)
        with tempfile.TemporaryDirectory() as temporary:
            for name, text in written(case, Path(temporary)).items():
                golden = FOLDER / case / name
                golden.parent.mkdir(parents=True, exist_ok=True)
                golden.write_text(text)
