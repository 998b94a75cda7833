"""The process behind the probes that need torch: `python -m plumbline.harness.probes.torch_worker --device cpu --threads 2 --ranks 1
--folder DIR --probes matmul` prints one JSON object: metric → [value, observations].

It is a process of its own so that neither PyTorch's threads nor a GPU's context stay behind in the harness while the trial is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import torch

from plumbline.harness.probes import products, transfers
from plumbline.harness.probes.collective import RankFailed, all_reduce

Found = dict[str, tuple[float, int]]

_OTHERS_S = 0.3
_COPY_BYTES, _TRANSFER_BYTES = 2**30, 2**28


def on_cpu(probes: Collection[str], threads: int, ranks: int, folder: Path) -> Found:
    """`matmul` and, of several ranks, `all_reduce`."""
    found: Found = {}
    if "all_reduce" in probes and ranks > 1:
        # First: a process that has computed has threads, which a fork does not carry over.
        found["all_reduce_bus_bandwidth"] = all_reduce(ranks, False, max(threads // ranks, 1), folder)
    if "matmul" in probes:
        torch.set_num_threads(threads)
        device = torch.device("cpu")
        best = {name: products.best(device, name, products.CPU_SHAPES)[:2] for name in products.formats(device)}
        found |= _by_format(best, "fp32")
    return found


def on_gpus(probes: Collection[str], gpus: Sequence[torch.device], folder: Path) -> Found:
    """Of the slowest GPU: the one that all others wait for."""
    found: Found = {}
    if "all_reduce" in probes and len(gpus) > 1:
        found["all_reduce_bus_bandwidth"] = all_reduce(len(gpus), True, 1, folder)
    if "matmul" in probes:
        first, *others = gpus
        best: Found = {}
        for name in products.formats(first):
            rate, n, shape = products.best(first, name, products.GPU_SHAPES)
            same = [products.sustained(gpu, name, shape, _OTHERS_S)[:2] for gpu in others]
            best[name] = min([(rate, n), *same])
        found |= _by_format(best, "bf16" if "bf16" in best else "fp32")
    if "memory" in probes:
        found["memory_bandwidth"] = min(transfers.within(gpu, _COPY_BYTES) for gpu in gpus)
    if "copy" in probes:
        found["host_to_device_bandwidth"] = min(transfers.to_device(gpu, _TRANSFER_BYTES) for gpu in gpus)
        found["device_to_host_bandwidth"] = min(transfers.to_host(gpu, _TRANSFER_BYTES) for gpu in gpus)
    return found


def _by_format(best: Found, usual: str) -> Found:
    """The figures by metric, the one of the usual format first and without its name."""
    return {"matmul_tflops": best[usual], **{f"matmul_tflops_{name}": figure for name, figure in best.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--gpus", type=int, help="only so many, the first ones; all without it")
    parser.add_argument("--probes", nargs="+", required=True)
    arguments = parser.parse_args()
    try:
        if arguments.device == "cpu":
            found = on_cpu(arguments.probes, arguments.threads, arguments.ranks, arguments.folder)
        else:
            gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())][: arguments.gpus]
            if not gpus:
                parser.error("PyTorch sees no GPU; expected at least one for --device cuda")
            found = on_gpus(arguments.probes, gpus, arguments.folder)
    except RankFailed as error:
        parser.error(str(error))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
