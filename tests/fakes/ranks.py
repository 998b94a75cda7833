"""Real ranks of a job in processes of their own, over gloo on loopback: a function is called in each of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from plumbline.harness.gang.channel import gloo_environment, serve_rendezvous_store
from plumbline.harness.training.distributed.process_group import RankGroups
from plumbline.harness.training.worker_protocol import ProcessGroupSpec

_LIMIT_S = 300
"""Ranks that wait for each other for ever must fail; four of them take a minute on two cores, and twice that beside other tests."""


def together(task: Callable[..., Any], world: int, *arguments: Any, nodes: int = 1) -> list[Any]:
    """What `task(peers, *arguments)` returns on each of `world` ranks, which have joined before it is called."""
    store, port = serve_rendezvous_store("127.0.0.1")
    with ProcessPoolExecutor(world, mp_context=multiprocessing.get_context("spawn")) as pool:
        groups = [ProcessGroupSpec(rank, world, rank % (world // nodes), nodes, "gloo", "127.0.0.1", port, "run") for rank in range(world)]
        found = [pool.submit(_one, task, group, arguments) for group in groups]
        results = [future.result(_LIMIT_S) for future in found]
    del store
    return results


def _one(task: Callable[..., Any], group: ProcessGroupSpec, arguments: tuple[Any, ...]) -> Any:
    import torch

    os.environ.update(gloo_environment("127.0.0.1"))
    torch.set_num_threads(1)
    peers = RankGroups(group, torch.device("cpu"))
    result = task(peers, *arguments)
    peers.leave()
    return result
