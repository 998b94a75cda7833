"""Triton's model repository for one workload: the model's source, its config.pbtxt, and what both hash to."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from plumbline.declarations import InferenceWorkload, digest
from plumbline.harness.environment.cpu import promised

MODEL = "chat"
ROWS = 64
"""Sequences that the model generates at once; further ones wait in it, first come first served."""

_FOLDER = Path(__file__).parent / "models" / "gpt"
_SOURCES = ("model.py", "transformer.py")
_CONFIG = """\
name: "{name}"
backend: "{backend}"
max_batch_size: 0
model_transaction_policy {{ decoupled: true }}
input [
  {{ name: "PROMPT_IDS" data_type: TYPE_INT32 dims: [ -1 ] }},
  {{ name: "MAX_TOKENS" data_type: TYPE_INT32 dims: [ 1 ] }}
]
output [
  {{ name: "TOKEN" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "INDEX" data_type: TYPE_INT32 dims: [ 1 ] }},
  {{ name: "SERVER_TIMES" data_type: TYPE_FP64 dims: [ 3 ] }}
]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""


def parameters_of(workload: InferenceWorkload) -> dict[str, str | int]:
    """What the model is built from. `threads` is the number of cores that the trial may count on."""
    shape = workload.model
    return {
        "layers": shape.layers,
        "width": shape.width,
        "heads": shape.heads,
        "vocabulary": shape.vocabulary,
        "context": shape.context,
        "seed": shape.seed,
        "sequences": ROWS,
        "device": "cpu" if workload.needs.accelerator == "cpu" else "cuda",
        "threads": promised(),
    }


def write(workload: InferenceWorkload, folder: Path) -> Path:
    """Write the repository into `folder` and return it."""
    version = folder / MODEL / "1"
    version.mkdir(parents=True, exist_ok=True)
    config = _CONFIG.format(name=MODEL, backend=workload.server.backend)
    # The instance is of kind CPU also for a model on a GPU: the model places itself, Triton only has to start it once.
    for key, value in parameters_of(workload).items():
        config += f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
    (version.parent / "config.pbtxt").write_text(config, encoding="utf-8")
    for name in _SOURCES:
        shutil.copyfile(_FOLDER / name, version / name)
    return folder


def model_hash(workload: InferenceWorkload) -> str:
    """Hash of what is served: source, shape and the weights' seed."""
    sources = {name: hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest() for name in _SOURCES}
    return digest({"sources": sources, "shape": workload.model.model_dump(mode="json"), "rows": ROWS})
