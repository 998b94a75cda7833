"""Export the encoder as a file that other runtimes load. `main` is run in a process of its own, with what to export on its input.

The file is loaded again and must answer as the model does, at batch sizes and lengths that it was not traced with.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.declarations.models import PATCH_BYTES

if TYPE_CHECKING:
    import torch

ENCODER = Path(__file__).parent.parent / "models" / "encoder" / "encoder.py"
FILES = {"onnxruntime": "model.onnx", "pytorch": "model.pt"}
_TRACED = (2, 5)
_TRIED = ((1, 3), (3, 8))
_TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2}


def export(shape: dict[str, Any], backend: str, file: Path, names: tuple[str, str]) -> None:
    """Write the encoder of `shape` (its declaration) to `file`; `names` are those of its input and its output.

    Raises ValueError if the file answers otherwise than the model, ModuleNotFoundError if a package that writes ONNX is missing.
    """
    import torch

    model = _encoder(shape)
    example = _ids(shape, *_TRACED)
    with torch.inference_mode(False), torch.no_grad():
        if backend == "pytorch":
            traced: Any = torch.jit.trace  # torch has no types for it
            traced(model, (example,), check_trace=False).save(str(file))
        else:
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
        answer = _loaded(backend, file, names)
        for size in _TRIED:
            ids = _ids(shape, *size)
            expected, got = model(ids), answer(ids)
            if got.shape != expected.shape or not torch.allclose(got, expected, atol=_TOLERANCE[shape["precision"]]):
                raise ValueError(f"{file.name} answers otherwise than the model for {size[0]} texts of {size[1]} tokens")


def _encoder(shape: dict[str, Any]) -> torch.nn.Module:
    # It lies beside other models as source for Triton's Python backend, and is no member of this package.
    spec = importlib.util.spec_from_file_location("encoder", ENCODER)
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


def _loaded(backend: str, file: Path, names: tuple[str, str]) -> Any:
    import torch

    if backend == "pytorch":
        load: Any = torch.jit.load
        return load(str(file))
    session = importlib.import_module("onnxruntime").InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda ids: torch.from_numpy(session.run([names[1]], {names[0]: ids.numpy()})[0])


def main() -> None:
    """What standard input asks for, as JSON: the arguments of `export` by their names."""
    asked = json.load(sys.stdin)
    export(asked["shape"], asked["backend"], Path(asked["file"]), tuple(asked["names"]))
