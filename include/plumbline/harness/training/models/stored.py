"""Initial weights in a safetensors file: `python -m plumbline.harness.training.models.stored shape.json FILE` writes them.

A process of its own writes: it needs torch and as much memory as the model, and the harness beside the measurement should hold neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from plumbline.harness.training import models


def load(model: nn.Module, file: Path) -> None:
    """Put the weights of a file that `main` wrote into the model. RuntimeError if they are another model's."""
    model.load_state_dict(load_file(file), assign=True)


def main(arguments: list[str]) -> int:
    """Draw the weights of a declared shape from its seed and write them."""
    shape, file = arguments
    model = models.build(json.loads(Path(shape).read_text()))
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
