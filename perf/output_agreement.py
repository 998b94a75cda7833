"""Loss of agreement by a faster precision: `python perf/output_agreement.py WORKLOAD... [--precision P...] [--prompts N] [--on-cpu]`

Serves each workload's model on Triton in each precision and compares it with fp32 as a trial does (`output_agreement`), on N prompts; more prompts than
a trial's make the figure more precise. Declare `quality.agreement` from it, with a margin. `--on-cpu` runs a model declared for a GPU on
this machine's cores. Rounding differs between machines, so expect close figures, not equal ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.declarations import InferenceWorkload, load
from plumbline.harness.inference.phases import quality
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.tritonserver import Triton


def in_precision(workload: InferenceWorkload, precision: str, prompts: int, *, on_cpu: bool) -> InferenceWorkload:
    """The workload with its model in another precision, compared with fp32 on this number of prompts."""
    data = json.loads(workload.model_dump_json())
    data["model"]["precision"] = precision
    # Any agreement passes: this only measures.
    data["quality"] = {"reference": "fp32", "agreement": "1%", "prompts": prompts}
    if on_cpu:
        data["needs"] = {"accelerator": "cpu", "count": 1}
    return InferenceWorkload.model_validate_json(json.dumps(data))


def measured(workload: InferenceWorkload) -> tuple[float, int]:
    """The agreement and its number of answers."""
    with tempfile.TemporaryDirectory() as folder:
        repository = backends.write(workload, Path(folder) / "models", threads=len(os.sched_getaffinity(0)))
        with Triton(tritonserver.find_installation(), repository.folder, repository.model, Path(folder), ready_within_s=600) as triton:
            (row,) = quality.check(workload, repository, triton.address).rows
    if row.value is None:
        raise SystemExit(f"{workload.name}: no agreement was measured")
    return row.value, row.n


def main() -> None:
    """Print a line for each workload and precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", help="such as chat-tiny-cpu")
    parser.add_argument("--precision", nargs="+", default=["bf16", "int8"])
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--on-cpu", action="store_true")
    options = parser.parse_args()
    declared = {workload.name: workload for workload in load().workloads.values() if isinstance(workload, InferenceWorkload)}
    if unknown := set(options.workloads) - declared.keys():
        raise SystemExit(f"{', '.join(sorted(unknown))}: no such inference workload; expected one of {', '.join(sorted(declared))}")
    for name in options.workloads:
        for precision in options.precision:
            began = time.monotonic()
            value, n = measured(in_precision(declared[name], precision, options.prompts, on_cpu=options.on_cpu))
            print(f"{name:16} {precision:5} {value:8.3%} of {n} answers, in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
