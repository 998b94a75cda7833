"""The process behind the probes: `python -m plumbline.harness.probes.worker --device cpu --cpus 0 1 --ranks 1 --folder DIR --collective-s 60
--parts matmul_fp32 disk` writes one line for each part: `{"rows": […]}` or `{"failed": why}`.

It is a process of its own so that neither PyTorch's threads nor a GPU's context stay behind in the harness while the trial is measured, and
so that a probe that crashes takes nothing else with it. Only the parts that need torch import it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from plumbline.harness.probes import disk, memory
from plumbline.results import MetricRow


def measure_part(part: str, options: argparse.Namespace) -> list[MetricRow]:
    if part == "disk":
        return disk.disk_rows(options.folder, large=options.device == "cuda")
    if part == "dataset":
        return disk.dataset_rows(options.folder)
    if part == "memory" and options.device == "cpu":
        return memory.memory_rows(options.cpus)
    module = import_module(f"plumbline.harness.probes.{'collectives' if part == 'all_reduce' else 'torch_probes'}")
    return cast(list[MetricRow], module.rows(part, options))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--cpus", type=int, nargs="+", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--collective-s", type=float, required=True)
    parser.add_argument("--gpus", type=int, help="only so many, the first ones; all without it")
    parser.add_argument("--parts", nargs="+", required=True)
    options = parser.parse_args(words)
    # What libraries print on their own goes where errors go.
    with os.fdopen(os.dup(1), "w") as lines:
        os.dup2(2, 1)
        for part in options.parts:
            answer, broken = _run_part(part, options)
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
            if broken and options.device == "cuda":
                return  # an error may spoil the GPU's context for all that follows: the runner goes on with a fresh process


def _run_part(part: str, options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    try:
        return {"rows": [each.model_dump(mode="json", exclude_defaults=True) for each in measure_part(part, options)]}, False
    except Exception as error:  # noqa: BLE001 - whatever it is, it is why the figure is absent
        first = str(error).strip().splitlines()[:1]
        return {"failed": f"{type(error).__name__}: {first[0]}" if first else type(error).__name__}, True


if __name__ == "__main__":
    main()
