"""One rank of the collectives between nodes: `python -m plumbline.harness.probes.inter_node_rank` with orders as JSON and the parent's id.

Rank 0 writes a line for each collective and size, {"collective", "bytes", "seconds", "n"}, or {"collective", "failed"}. `bytes` is what the
convention of nccl-tests calls the size: of an all-reduce the buffer, of the two others what each rank ends up with.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore  # torch.distributed re-exports them untyped

from plumbline.harness.own_parent import end_with_parent
from plumbline.harness.probes.inter_node import COLLECTIVES

CPU_SIZES = (2**20, 2**23)
GPU_SIZES = (2**20, 2**23, 2**26, 2**29, 2**31, 2**33)
_AT_LEAST = 3
_CPU_SECONDS, _GPU_SECONDS = 0.2, 1.0
"""How long each size is repeated."""
_SHARE = 0.8
"""Of the limit: what the measurement may take in all, so that its last size is not cut off."""
_MEMORY_SHARE = 3
"""Buffers take up to twice the size, and the library its own."""


def main(words: Sequence[str]) -> None:
    orders, parent = json.loads(words[0]), int(words[1])
    end_with_parent(parent)
    warnings.simplefilter("ignore", FutureWarning)  # names that newer releases replace and older ones lack
    cuda, limit_s = orders["device"] == "cuda", float(orders["limit_s"])
    started = time.monotonic()
    if cuda:
        torch.cuda.set_device(orders["local_rank"])
    else:
        torch.set_num_threads(orders["threads"])
    store = PrefixStore("inter-node", TCPStore(orders["host"], orders["port"], timeout=timedelta(seconds=limit_s)))
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        store=store,
        rank=orders["rank"],
        world_size=orders["world"],
        timeout=timedelta(seconds=limit_s),
    )
    device = torch.device("cuda", orders["local_rank"]) if cuda else torch.device("cpu")
    each_s = (limit_s - _slowest(time.monotonic() - started, device)) * _SHARE / len(COLLECTIVES)
    for collective in COLLECTIVES:
        for line in _measured(collective, orders["world"], device, each_s):
            if orders["rank"] == 0:
                sys.stdout.write(json.dumps({"collective": collective, **line}) + "\n")
                sys.stdout.flush()
    # All have come this far: no rank waits for one that ends now.
    dist.barrier()


def _measured(collective: str, world: int, device: torch.device, budget_s: float) -> list[dict[str, Any]]:
    """One entry a size, rising, for as long as the next one fits into the memory and the time. All ranks take the same decisions, by the
    slowest rank's figures."""
    found: list[dict[str, Any]] = []
    spent = last = 0.0
    for size in GPU_SIZES if device.type == "cuda" else CPU_SIZES:
        before = found[-1]["bytes"] if found else size
        if not _fits(size, device) or spent + last * (_AT_LEAST + 1) * size / before > budget_s:
            break
        try:
            work = _work(collective, size, world, device)
            _timed(work, 1, device)  # connections are made and algorithms chosen
            last = _slowest(_timed(work, 1, device), device)
            times = max(int((_GPU_SECONDS if device.type == "cuda" else _CPU_SECONDS) / max(last, 1e-6)), _AT_LEAST)
            seconds = _slowest(_timed(work, times, device), device)
        except RuntimeError as error:
            return [*found, {"failed": str(error).strip().splitlines()[0]}]
        spent += seconds + 2 * last
        last = seconds / times
        found.append({"bytes": size, "seconds": last, "n": times})
    return found


def _work(collective: str, size: int, world: int, device: torch.device) -> Callable[[], object]:
    count = max(size // 4 // world, 1) * world
    whole = torch.zeros(count, device=device)
    if collective == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if collective == "all_gather":
        part = torch.zeros(count // world, device=device)
        return lambda: dist.all_gather_into_tensor(whole, part)
    other = torch.zeros_like(whole)
    return lambda: dist.all_to_all_single(other, whole)


def _timed(work: Callable[[], object], times: int, device: torch.device) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def _slowest(value: float, device: torch.device) -> float:
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared.item())


def _fits(size: int, device: torch.device) -> bool:
    """Whether every rank has the memory."""
    if device.type != "cuda":
        return True
    lacks = 0.0 if size * _MEMORY_SHARE < torch.cuda.mem_get_info(device)[0] else 1.0
    return _slowest(lacks, device) == 0.0


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # NCCL's threads may wait for ranks that are gone already
