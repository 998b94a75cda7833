"""A rank's process groups, its place in the device mesh, and how long a backward pass waits for other ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from plumbline.harness.training.checkpoint.state import flatten_state, replace_leaves
from plumbline.harness.training.worker_protocol import ProcessGroupSpec, WorkerSpec


class GradientWait:
    """Time from the moment that this rank has all its own gradients to the end of the backward pass.

    On a GPU by events in the stream that computes: the program itself is elsewhere by then.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ready_ns: int | None = None
        self._ready_event: torch.cuda.Event | None = None

    def mark_gradients_ready(self) -> None:
        """So far; the last call of a backward counts."""
        if self._device.type == "cuda":
            self._ready_event = _record_event(torch.cuda.default_stream(self._device))
        else:
            self._ready_ns = monotonic_ns()

    def elapsed(self) -> Callable[[], int] | None:
        """The wait (ns) of the backward that ends now, read later; None without one."""
        if self._device.type == "cuda":
            ready, self._ready_event = self._ready_event, None
            if ready is None:
                return None
            end = _record_event(torch.cuda.default_stream(self._device))
            return lambda: int(ready.elapsed_time(end) * 1e6)
        begun, self._ready_ns = self._ready_ns, None
        if begun is None:
            return None
        waited = monotonic_ns() - begun
        return lambda: waited


def _record_event(stream: torch.cuda.Stream) -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


@dataclass(frozen=True)
class MeshLayout:
    """One rank's place. Ranks are numbered so that those that share a layer are neighbours, then those that share a replica.

    `replicate` replicas of the model, each held by `shard` × `tensor` ranks.
    """

    rank: int
    replicate: int
    shard: int
    tensor: int
    processes: int

    @property
    def span(self) -> int:
        return self.shard * self.tensor

    @property
    def replica(self) -> range:
        first = self.rank // self.span * self.span
        return range(first, first + self.span)

    @property
    def node(self) -> int:
        return self.rank // self.processes

    @property
    def local(self) -> int:
        """Which of its node's ranks it is; 0 looks after the node's checkpoints."""
        return self.rank % self.processes

    @property
    def writes(self) -> bool:
        """Whether this rank's part is saved: the first replica on each node is, and so no node needs another one's disk."""
        return self.rank // self.span == self.node * self.processes // self.span

    @property
    def part(self) -> str:
        """The part of the state on this node, in words; a checkpoint is only usable with the same part."""
        return f"node {self.node} with {self.processes} ranks, {self.replicate} x {self.shard} x {self.tensor}"


def mesh_layout(spec: WorkerSpec, group: ProcessGroupSpec) -> MeshLayout:
    """The place of a rank. With ddp a shard is one rank."""
    job = spec.parallelism
    replicas = group.world // job["tensor"]
    shard = (job["shard"] or replicas) if job["strategy"] == "fsdp" else 1
    return MeshLayout(group.rank, replicas // shard, shard, job["tensor"], group.world // group.nodes)


_TIMEOUT = timedelta(minutes=30)
"""For any one collective: a rank that saves a large checkpoint makes the others wait. Dead ranks are noticed by their supervisor."""


class RankGroups:
    """This rank's membership in the job."""

    def __init__(self, group: ProcessGroupSpec, device: torch.device) -> None:
        """Joins: returns when all ranks are there. Raises a RuntimeError if one of them is not within half an hour."""
        self.group = group
        store = TCPStore(group.host, group.port, is_master=False, timeout=_TIMEOUT)
        prefixed = PrefixStore(group.run, store)
        bound = device if device.type == "cuda" else None
        if bound is not None:
            torch.cuda.set_device(bound)  # events, streams and meshes are of the current device unless told otherwise
        dist.init_process_group(group.backend, store=prefixed, rank=group.rank, world_size=group.world, timeout=_TIMEOUT, device_id=bound)
        self._device = device

    def checkpoint_groups(self, layout: MeshLayout) -> CheckpointGroups:
        """Groups of ranks that save and load sharded state together. All ranks call it, at the same point."""
        # Over gloo whatever the device: for words rather than tensors, and for another thread than the loop's.
        everybody = _require_group(dist.new_group(backend="gloo", timeout=_TIMEOUT))
        mine = None
        for first in range(0, self.group.world, layout.span):
            group = dist.new_group(list(range(first, first + layout.span)), backend="gloo", timeout=_TIMEOUT)
            if first == layout.replica.start:
                mine = group
        return CheckpointGroups(layout, everybody, _require_group(mine))

    def share(self, state: dict[str, Any] | None) -> dict[str, Any]:
        """Rank 0's training state on every rank; the others give None. Tensors travel one by one: only one of them is held twice."""
        sent = flatten_state(state or {})
        slots = {path: _TensorSlot(leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for path, leaf in sent.items()}
        outline = [replace_leaves(state or {}, slots)]
        dist.broadcast_object_list(outline, src=0, device=self._device)
        leaves = flatten_state(outline[0])
        for path, leaf in leaves.items():
            if isinstance(leaf, _TensorSlot):
                tensor = sent[path].to(self._device) if path in sent else torch.empty(leaf.shape, dtype=leaf.dtype, device=self._device)
                dist.broadcast(tensor, src=0)
                leaves[path] = tensor
        shared: dict[str, Any] = replace_leaves(outline[0], leaves)
        return shared

    def barrier(self) -> None:
        dist.barrier(device_ids=[self._device.index] if self._device.type == "cuda" else None)

    def leave(self) -> None:
        dist.destroy_process_group()


class CheckpointGroups:
    """A CheckpointRanks that talks over groups of its own: a save beside the training does so while the loop uses the other."""

    def __init__(self, layout: MeshLayout, everybody: dist.ProcessGroup, replica: dist.ProcessGroup) -> None:
        self.node, self.local, self.processes = layout.node, layout.local, layout.processes
        self.writes, self.part = layout.writes, layout.part
        self.replica_group: dist.ProcessGroup | None = replica
        self._everybody = everybody

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values in order; a barrier."""
        gathered: list[Any] = [None] * self._everybody.size()
        dist.all_gather_object(gathered, value, group=self._everybody)
        return gathered


def is_peer_lost(error: BaseException) -> bool:
    """Whether an error says that another rank went away, rather than that something is wrong on this one."""
    if isinstance(error, dist.DistError):
        return True
    message = str(error)
    return isinstance(error, RuntimeError) and (
        "gloo" in message or "Connection closed by peer" in message or "Connection reset by peer" in message
    )


def _require_group(group: Any) -> dist.ProcessGroup:
    """Torch returns something else to ranks outside the group; here all are in it."""
    required: dist.ProcessGroup = group
    return required


@dataclass(frozen=True)
class _TensorSlot:
    shape: torch.Size
    dtype: torch.dtype
