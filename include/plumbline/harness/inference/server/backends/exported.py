"""Model repositories of the encoder exported to ONNX (backend onnxruntime)."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.models import PATCH_BYTES, Encoder
from plumbline.harness import engine_python
from plumbline.harness.inference import models
from plumbline.harness.inference.load.model_wires import pixels
from plumbline.harness.inference.server.backends.repository import (
    Input,
    Repository,
    config_of,
    hash_of,
    needs_precision,
    version_folder,
)
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import Tensor, Wire
from plumbline.whole_file import sha256_file

if TYPE_CHECKING:
    import torch


MODEL, FILE = "encoder", "model.onnx"
_BACKEND = "onnxruntime"
_EXPORT_WITHIN_S = 900.0


def write(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The repository, with the exported model."""
    return _write(workload, folder, threads, ENCODER)


def write_without_model(workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
    """The same, with a model that answers at once."""
    return _write(workload, folder, threads, models.WITHOUT_ENCODER)


def _write(workload: InferenceWorkload, folder: Path, threads: int, source: Path) -> Repository:
    shape = workload.model
    assert isinstance(shape, Encoder)
    gpu = workload.needs.accelerator != "cpu"
    needs_precision(workload, ("fp32", "fp16") if gpu else ("fp32",), "an exported model keeps the type of its weights")
    vision = shape.task == "vision"
    inputs = "PIXELS" if vision else "IDS"
    answer, size = ("SCORE", 1) if shape.task == "reranking" else ("VECTOR", shape.width)
    config = config_of(
        MODEL,
        _BACKEND,
        [Input(inputs, "UINT8", (-1, PATCH_BYTES)) if vision else Input(inputs, "INT32", (-1,))],
        [(answer, "FP32", (size,))],
        kind="GPU" if gpu else "CPU",
        batch=workload.server.sequences,
        parameters={"intra_op_thread_count": threads},
    )
    version = version_folder(folder, config)
    _export(shape, version / FILE, (inputs, answer), source)
    wire = Wire("unary", MODEL, {answer: 4 * size}, index=None)

    def tensors(number: int, prompt: Prompt, output_tokens: int) -> list[Tensor]:
        return [pixels(inputs, prompt) if vision else Tensor(inputs, "INT32", prompt.ids[None])]

    return Repository(folder, MODEL, _BACKEND, wire, tensors)


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of the encoder's source and of how it is exported, its shape and its weights."""
    sources = (ENCODER, Path(__file__))
    return hash_of(workload, **{path.name: sha256_file(path) for path in sources})


def _export(shape: Encoder, file: Path, names: tuple[str, str], source: Path) -> None:
    request = {"shape": shape.model_dump(mode="json"), "file": str(file), "names": names, "source": str(source)}
    try:
        done = engine_python.run("-c", f"from {__name__} import main; main()", request=request, limit_s=_EXPORT_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        raise TrialFailed("timeout", f"the encoder was not exported for {_BACKEND} within {_EXPORT_WITHIN_S:g}s") from error
    if done.returncode:
        reported = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise TrialFailed(
            "image_error",
            f"the encoder could not be exported for {_BACKEND}, which takes the packages torch, onnxscript and onnxruntime: {reported}",
        )


# Export the encoder as a file that ONNX Runtime loads. `main` is run in a process of its own, with what to export on its input.
#
# The file is loaded again and must answer as the model does, at batch sizes and lengths that it was not traced with.


ENCODER = Path(__file__).parents[2] / "models" / "encoder.py"
_TRACED = (2, 5)
_TRIED = ((1, 3), (3, 8))
_TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2}


def export_encoder(shape: dict[str, Any], file: Path, names: tuple[str, str], source: Path | None = None) -> None:
    """Write the encoder of `shape` (its declaration) to `file`; `names` are those of its input and its output, `source` is where its class is.

    Raises ValueError if the file answers otherwise than the model, ModuleNotFoundError if a package that writes ONNX is missing.
    """
    import torch

    model = _encoder(shape, source or ENCODER)
    example = _ids(shape, *_TRACED)
    with torch.inference_mode(False), torch.no_grad():
        sizes = {0: torch.export.Dim("texts", min=1), 1: torch.export.Dim("tokens", min=1, max=shape["context"])}
        torch.onnx.export(
            model,
            (example,),
            str(file),
            input_names=[names[0]],
            output_names=[names[1]],
            dynamic_shapes=(sizes,),
            dynamo=True,
        )
        answer = _loaded(file, names)
        for size in _TRIED:
            ids = _ids(shape, *size)
            expected, got = model(ids), answer(ids)
            if got.shape != expected.shape or not torch.allclose(got, expected, atol=_TOLERANCE[shape["precision"]]):
                raise ValueError(f"{file.name} answers otherwise than the model for {size[0]} texts of {size[1]} tokens")


def _encoder(shape: dict[str, Any], source: Path) -> torch.nn.Module:
    # It lies beside other models as source for Triton's Python backend, and is no member of this package.
    spec = importlib.util.spec_from_file_location("encoder", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dimensions = {key: shape[key] for key in ("task", "layers", "width", "heads", "vocabulary", "context")}
    model: torch.nn.Module = module.seeded(shape["seed"], **dimensions)
    converted: torch.nn.Module = model.half() if shape["precision"] == "fp16" else model
    return converted


def _ids(shape: dict[str, Any], texts: int, tokens: int) -> torch.Tensor:
    import torch

    count = min(tokens, shape["context"])
    if shape["task"] == "vision":
        return (torch.arange(texts * count * PATCH_BYTES).reshape(texts, count, PATCH_BYTES) * 7 % 256).to(torch.uint8)
    ids: torch.Tensor = (torch.arange(texts * count).reshape(texts, count) * 7 % shape["vocabulary"]).to(torch.int32)
    return ids


def _loaded(file: Path, names: tuple[str, str]) -> Any:
    import torch

    session = importlib.import_module("onnxruntime").InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda ids: torch.from_numpy(session.run([names[1]], {names[0]: ids.numpy()})[0])


def main() -> None:
    """Run the export that standard input describes as JSON: the arguments of `export` by their names."""
    request = json.load(sys.stdin)
    export_encoder(request["shape"], Path(request["file"]), tuple(request["names"]), Path(request["source"]))
