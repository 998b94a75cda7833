"""Write initial weights to a safetensors file: `python -m plumbline.harness.training.models shape.json FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from safetensors.torch import save_file

from plumbline.harness.training import models


def main(arguments: list[str]) -> int:
    """Draw the weights of a declared shape from its seed and write them."""
    shape, file = arguments
    model = models.build_model(json.loads(Path(shape).read_text()))
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
