"""Timed collectives, needs torch: an all-reduce within one node, and the program of one rank between nodes."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, PrefixStore, TCPStore

from plumbline.harness.parent_guard import end_with_parent
from plumbline.harness.probes.inter_node import COLLECTIVES, bus_factor
from plumbline.harness.probes.torch_probes import usable_gpus
from plumbline.results import MetricRow, metric_row

_NODE_CPU_SIZES, _NODE_GPU_SIZES = (2**20, 2**24), (2**26, 2**30)
"""Bytes. Small messages show latency, large ones bandwidth."""
_NODE_SECONDS, _NODE_MIN_REPEATS = 0.2, 3
_EXIT_TIMEOUT_S = 10.0


class RankFailed(RuntimeError): ...


def rows(_part: str, options: argparse.Namespace) -> list[MetricRow]:
    """`all_reduce_bus_bandwidth`; nothing with a single rank."""
    cuda = options.device == "cuda"
    ranks = len(usable_gpus(options.gpus)) if cuda else options.ranks
    if ranks < 2:
        return []
    threads = 1 if cuda else max(len(options.cpus) // ranks, 1)
    rate, n = node_all_reduce(ranks, cuda, threads, options.folder, options.collective_s)
    return [metric_row("all_reduce_bus_bandwidth", rate, n, phase="environment")]


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Bytes/s over each rank's link in an all-reduce of `size` bytes: independent of the number of ranks, comparable with the link's rating."""
    return size / seconds * bus_factor("all_reduce", ranks)


def node_all_reduce(ranks: int, cuda: bool, threads: int, folder: Path, limit_s: float) -> tuple[float, int]:
    """Best bus bandwidth in bytes/s over the sizes and the number of all-reduces, by NCCL between GPUs 0 to `ranks` - 1 or by gloo between
    processes with `threads` each. `folder`: their meeting point. RankFailed, also without an answer within `limit_s`."""
    # A forked process has torch imported already; a GPU's context does not survive a fork.
    context = multiprocessing.get_context("spawn") if cuda else multiprocessing.get_context("fork")
    answers: SimpleQueue[Any] = context.SimpleQueue()
    meeting = folder / f"all-reduce-{os.getpid()}"
    processes = [context.Process(target=_run_node_rank, args=(rank, ranks, cuda, threads, meeting, answers)) for rank in range(ranks)]
    try:
        for process in processes:
            process.start()
        deadline = time.monotonic() + limit_s
        while answers.empty() and all(process.exitcode in (None, 0) for process in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
        if answers.empty():
            died = [process.exitcode for process in processes if process.exitcode not in (None, 0)]
            how = f"a rank ended with {died[0]}" if died else f"no answer within {limit_s:g} s"
            raise RankFailed(f"an all-reduce over {ranks} ranks failed: {how}")
        answer = answers.get()
        if isinstance(answer, str):
            raise RankFailed(f"an all-reduce over {ranks} ranks failed: {answer}")
        rate, n = answer
        for process in processes:
            process.join(_EXIT_TIMEOUT_S)
        return float(rate), int(n)
    finally:
        for process in processes:
            process.kill()
            process.join()
        meeting.unlink(missing_ok=True)


def _run_node_rank(rank: int, ranks: int, cuda: bool, threads: int, meeting: Path, answers: SimpleQueue[Any]) -> None:
    try:
        if cuda:
            torch.cuda.set_device(rank)
        else:
            torch.set_num_threads(threads)
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's name may lead nowhere, and all ranks are here
        dist.init_process_group("nccl" if cuda else "gloo", store=FileStore(str(meeting), ranks), rank=rank, world_size=ranks)
        rows = [_measure_node_size(size, ranks, cuda) for size in (_NODE_GPU_SIZES if cuda else _NODE_CPU_SIZES)]
        dist.destroy_process_group()
        if rank == 0:
            answers.put((max(rate for rate, _ in rows), sum(n for _, n in rows)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the process that waits for an answer says it
        answers.put(f"rank {rank}: {type(error).__name__}: {error}")


def _measure_node_size(size: int, ranks: int, cuda: bool) -> tuple[float, int]:
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    data = torch.ones(size // 4, device=device)

    def reduce() -> object:
        return dist.all_reduce(data)

    _time_repeats(reduce, 1, device)
    times = max(int(_NODE_SECONDS / _max_over_ranks(_time_repeats(reduce, 1, device), device)), _NODE_MIN_REPEATS)
    data.zero_()  # sums of sums would overflow, and infinities are no random data
    return bus_bandwidth(size, _time_repeats(reduce, times, device) / times, ranks), times


CPU_SIZES = (2**20, 2**23)
GPU_SIZES = (2**20, 2**23, 2**26, 2**29, 2**31, 2**33)
_MIN_REPEATS = 3
_CPU_SECONDS, _GPU_SECONDS = 0.2, 1.0
_LIMIT_SHARE = 0.8
"""Share of the limit for the measurement, so that its last size is not cut off."""
_MEMORY_SHARE = 3
"""Buffers take up to twice the size, and the library its own."""


def main(words: Sequence[str]) -> None:
    """One rank of the collectives between nodes; `words`: the specification as JSON and the parent's process id.

    Rank 0 writes a line for each collective and size, {"collective", "bytes", "seconds", "n"}, or {"collective", "failed"}. `bytes` is
    nccl-tests' size: of an all-reduce the buffer, of the others each rank's result."""
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
    each_s = (limit_s - _max_over_ranks(time.monotonic() - started, device)) * _LIMIT_SHARE / len(COLLECTIVES)
    for collective in COLLECTIVES:
        for line in _measure_collective(collective, orders["world"], device, each_s):
            if orders["rank"] == 0:
                sys.stdout.write(json.dumps({"collective": collective, **line}) + "\n")
                sys.stdout.flush()
    # All have come this far: no rank waits for one that ends now.
    dist.barrier()


def _measure_collective(collective: str, world: int, device: torch.device, budget_s: float) -> list[dict[str, Any]]:
    """One entry a size, rising, while memory and time suffice. All ranks decide alike, by the slowest rank's figures."""
    rows: list[dict[str, Any]] = []
    spent = last = 0.0
    for size in GPU_SIZES if device.type == "cuda" else CPU_SIZES:
        before = rows[-1]["bytes"] if rows else size
        if not _fits(size, device) or spent + last * (_MIN_REPEATS + 1) * size / before > budget_s:
            break
        try:
            work = _collective_call(collective, size, world, device)
            _time_repeats(work, 1, device)  # connections are made and algorithms chosen
            last = _max_over_ranks(_time_repeats(work, 1, device), device)
            times = max(int((_GPU_SECONDS if device.type == "cuda" else _CPU_SECONDS) / max(last, 1e-6)), _MIN_REPEATS)
            seconds = _max_over_ranks(_time_repeats(work, times, device), device)
        except RuntimeError as error:
            return [*rows, {"failed": str(error).strip().splitlines()[0]}]
        spent += seconds + 2 * last
        last = seconds / times
        rows.append({"bytes": size, "seconds": last, "n": times})
    return rows


def _collective_call(collective: str, size: int, world: int, device: torch.device) -> Callable[[], object]:
    count = max(size // 4 // world, 1) * world
    whole = torch.zeros(count, device=device)
    if collective == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if collective == "all_gather":
        part = torch.zeros(count // world, device=device)
        return lambda: dist.all_gather_into_tensor(whole, part)
    other = torch.zeros_like(whole)
    return lambda: dist.all_to_all_single(other, whole)


def _time_repeats(work: Callable[[], object], times: int, device: torch.device) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def _max_over_ranks(value: float, device: torch.device) -> float:
    shared = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared.item())


def _fits(size: int, device: torch.device) -> bool:
    if device.type != "cuda":
        return True
    lacks = 0.0 if size * _MEMORY_SHARE < torch.cuda.mem_get_info(device)[0] else 1.0
    return _max_over_ranks(lacks, device) == 0.0


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # NCCL's threads may wait for ranks that are gone already
