"""Repositories of the project's encoder as a tensor model: exported to ONNX for `onnxruntime`, to TorchScript for `pytorch`.

Triton batches what waits, as far as it is equally long: these backends know no padding.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.models import PATCH_BYTES, Encoder
from plumbline.harness import engine_python
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.repositories import export
from plumbline.harness.inference.repositories.repository import Input, Repository, config_of, hash_of, needs_precision, version_folder
from plumbline.harness.inference.wire import Tensor, Wire, pixels
from plumbline.harness.measurement import TrialFailed

MODEL = "encoder"
_EXPORT_WITHIN_S = 900.0
_PACKAGES = {"onnxruntime": "the packages torch, onnxscript and onnxruntime", "pytorch": "the package torch"}
_THREADS = {"onnxruntime": "intra_op_thread_count", "pytorch": "INTRA_OP_THREAD_COUNT"}


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository, with the exported model."""
    shape, backend = workload.model, workload.server.backend
    assert isinstance(shape, Encoder)
    gpu = workload.needs.accelerator != "cpu"
    needs_precision(workload, ("fp32", "fp16") if gpu else ("fp32",), "an exported model keeps the type of its weights")
    # LibTorch knows tensors by position, which their names must carry.
    suffix = "__0" if backend == "pytorch" else ""
    vision = shape.task == "vision"
    asked = f"PIXELS{suffix}" if vision else f"IDS{suffix}"
    answer, size = (f"SCORE{suffix}", 1) if shape.task == "reranking" else (f"VECTOR{suffix}", shape.width)
    config = config_of(
        MODEL,
        backend,
        [Input(asked, "UINT8", (-1, PATCH_BYTES)) if vision else Input(asked, "INT32", (-1,))],
        [(answer, "FP32", (size,))],
        kind="GPU" if gpu else "CPU",
        batch=workload.server.sequences,
        parameters={_THREADS[backend]: threads},
    )
    version = version_folder(folder, config)
    _export(shape, backend, version / export.FILES[backend], (asked, answer))
    wire = Wire("unary", MODEL, {answer: 4 * size}, index=None)

    def body(number: int, prompt: Prompt, output_tokens: int) -> bytes:
        if vision:
            return wire.body(number, [pixels(asked, prompt)])
        return wire.body(number, [Tensor(asked, "INT32", (1, len(prompt.ids)), prompt.ids.astype("<i4").tobytes())])

    return Repository(folder, MODEL, backend, wire, body)


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of the encoder's source and of how it is exported, its shape and its weights."""
    sources = (export.ENCODER, Path(export.__file__))
    return hash_of(workload, **{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources})


def _export(shape: Encoder, backend: str, file: Path, names: tuple[str, str]) -> None:
    """Export in a process of its own: torch has no place beside the client."""
    asked = {"shape": shape.model_dump(mode="json"), "backend": backend, "file": str(file), "names": names}
    try:
        done = subprocess.run(
            [engine_python.executable(), "-c", f"from {export.__name__} import main; main()"],
            input=json.dumps(asked),
            env=engine_python.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_EXPORT_WITHIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TrialFailed("timeout", f"the encoder was not exported for {backend} within {_EXPORT_WITHIN_S:g}s") from error
    if done.returncode:
        told = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise TrialFailed("image_error", f"the encoder could not be exported for {backend}, which takes {_PACKAGES[backend]}: {told}")
