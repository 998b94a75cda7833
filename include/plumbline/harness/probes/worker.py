"""The process behind the probes: `python -m plumbline.harness.probes.worker --device cpu --cpus 0 1 --ranks 1 --folder DIR --collective-s 60
--parts matmul_fp32 disk` writes one line for each part: `{"rows": […]}` or `{"failed": why}`.

It is a process of its own so that neither PyTorch's threads nor a GPU's context stay behind in the harness while the trial is measured, and
so that a probe that crashes takes nothing else with it. torch is imported by the parts that need it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.harness.probes import NOT_COMPUTED, disk, memory
from plumbline.results import MetricRow, metric_row

if TYPE_CHECKING:
    import torch

_OTHER_GPUS_S = 0.3
_COPY_BYTES, _TRANSFER_BYTES = 2**30, 2**28


def measure_part(part: str, options: argparse.Namespace) -> list[MetricRow]:
    """The rows of one part; whatever the probe raises."""
    name, _, format_ = part.partition("_")
    if name == "matmul":
        return [_matmul(format_, options)]
    ways: dict[str, Callable[[argparse.Namespace], list[MetricRow]]] = {
        "all_reduce": _all_reduce,
        "memory": _memory,
        "host_to_device": lambda o: [_transfer("host_to_device", o)],
        "device_to_host": lambda o: [_transfer("device_to_host", o)],
        "disk": lambda o: disk.disk_rows(o.folder, large=o.device == "cuda"),
        "dataset": lambda o: disk.dataset_rows(o.folder),
    }
    return ways[part](options)


def _all_reduce(options: argparse.Namespace) -> list[MetricRow]:
    from plumbline.harness.probes.collectives import node_all_reduce

    cuda = options.device == "cuda"
    ranks = len(_gpus(options)) if cuda else options.ranks
    if ranks < 2:
        return []
    threads = 1 if cuda else max(len(options.cpus) // ranks, 1)
    rate, n = node_all_reduce(ranks, cuda, threads, options.folder, options.collective_s)
    return [metric_row("all_reduce_bus_bandwidth", rate, n, phase="environment")]


def _matmul(name: str, options: argparse.Namespace) -> MetricRow:
    import torch

    from plumbline.harness.probes import torch_probes

    devices = _gpus(options) if options.device == "cuda" else [torch.device("cpu")]
    metric, first, others = f"matmul_tflops_{name}", devices[0], devices[1:]
    why = torch_probes.unsupported_format(first, name)
    if why is not None:
        return metric_row(metric, None, 0, phase="environment", reason=NOT_COMPUTED + why)
    if options.device == "cpu":
        torch.set_num_threads(len(options.cpus))
    rate, n, shape = torch_probes.best_matmul(first, name, torch_probes.CPU_SHAPES if options.device == "cpu" else torch_probes.GPU_SHAPES)
    found = min([(rate, n), *(torch_probes.sustained_matmul(gpu, name, shape, _OTHER_GPUS_S)[:2] for gpu in others)])
    return metric_row(metric, *found, phase="environment")


def _memory(options: argparse.Namespace) -> list[MetricRow]:
    if options.device == "cpu":
        return memory.memory_rows(options.cpus)
    from plumbline.harness.probes import torch_probes

    return [
        metric_row(
            "memory_bandwidth", *min(torch_probes.copy_within_device(gpu, _COPY_BYTES) for gpu in _gpus(options)), phase="environment"
        )
    ]


def _transfer(way: str, options: argparse.Namespace) -> MetricRow:
    from plumbline.harness.probes import torch_probes

    one = torch_probes.copy_to_device if way == "host_to_device" else torch_probes.copy_to_host
    rate, n, where = min(one(gpu, _TRANSFER_BYTES) for gpu in _gpus(options))
    return metric_row(f"{way}_bandwidth", rate, n, phase="environment", method=where)


def _gpus(options: argparse.Namespace) -> list[torch.device]:
    import torch

    gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())][: options.gpus]
    if not gpus:
        raise RuntimeError("PyTorch sees no GPU; expected at least one")
    return gpus


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
    """One part as its output line, and whether it failed."""
    try:
        return {"rows": [each.model_dump(mode="json", exclude_defaults=True) for each in measure_part(part, options)]}, False
    except Exception as error:  # noqa: BLE001 - whatever it is, it is why the figure is absent
        first = str(error).strip().splitlines()[:1]
        return {"failed": f"{type(error).__name__}: {first[0]}" if first else type(error).__name__}, True


if __name__ == "__main__":
    main()
