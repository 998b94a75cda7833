"""An all-reduce over the ranks of one node, each in a process of its own. Runs in the probes' own process: it needs torch."""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_CPU_SIZES, _GPU_SIZES = (2**20, 2**24), (2**26, 2**30)
"""Bytes. Small ones measure how long a message is under way, large ones how many bytes fit through."""
_SECONDS_EACH, _AT_LEAST = 0.2, 3
_FAREWELL_S = 10.0


class RankFailed(RuntimeError):
    """A rank could not take part; the message says why."""


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Bytes/s that each rank's link carries: an all-reduce of `size` bytes sends and receives each of them 2(n-1)/n times over it, however
    it goes about it. So the figure does not fall with the number of ranks, and can be held against what the link is sold for."""
    return size / seconds * 2 * (ranks - 1) / ranks


def all_reduce(ranks: int, cuda: bool, threads: int, folder: Path, limit_s: float) -> tuple[float, int]:
    """Best bus bandwidth in bytes/s over the sizes, by NCCL between GPUs 0 to `ranks` - 1 or by gloo between processes with `threads` each;
    and the number of all-reduces. `folder` is where they meet. RankFailed, also if there is no answer within `limit_s`."""
    # A forked process has torch imported already; a GPU's context does not survive a fork.
    context = multiprocessing.get_context("spawn") if cuda else multiprocessing.get_context("fork")
    answers: SimpleQueue[Any] = context.SimpleQueue()
    meeting = folder / f"all-reduce-{os.getpid()}"
    processes = [context.Process(target=_rank, args=(rank, ranks, cuda, threads, meeting, answers)) for rank in range(ranks)]
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
            process.join(_FAREWELL_S)
        return float(rate), int(n)
    finally:
        for process in processes:
            process.kill()
            process.join()
        meeting.unlink(missing_ok=True)


def _rank(rank: int, ranks: int, cuda: bool, threads: int, meeting: Path, answers: SimpleQueue[Any]) -> None:
    try:
        if cuda:
            torch.cuda.set_device(rank)
        else:
            torch.set_num_threads(threads)
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's name may lead nowhere, and all ranks are here
        dist.init_process_group("nccl" if cuda else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
        found = [_measured(size, ranks, cuda) for size in (_GPU_SIZES if cuda else _CPU_SIZES)]
        dist.destroy_process_group()
        if rank == 0:
            answers.put((max(rate for rate, _ in found), sum(n for _, n in found)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the process that waits for an answer says it
        answers.put(f"rank {rank}: {type(error).__name__}: {error}")


def _measured(size: int, ranks: int, cuda: bool) -> tuple[float, int]:
    """All ranks do the same number of all-reduces: as many as fit into the time that the first of them took on the slowest."""
    data = torch.ones(size // 4, device="cuda" if cuda else "cpu")
    _timed(data, 1, cuda)
    once = torch.tensor([_timed(data, 1, cuda)], device=data.device)
    dist.all_reduce(once, op=dist.ReduceOp.MAX)
    times = max(int(_SECONDS_EACH / float(once.item())), _AT_LEAST)
    data.zero_()  # sums of sums would overflow, and infinities are no random data
    return bus_bandwidth(size, _timed(data, times, cuda) / times, ranks), times


def _timed(data: torch.Tensor, times: int, cuda: bool) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(data)
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began
