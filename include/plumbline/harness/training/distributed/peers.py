"""One rank's membership in the job: its process groups, and state that one rank has and all need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore  # torch.distributed re-exports them untyped

from plumbline.harness.training.distributed.layout import Layout
from plumbline.harness.training.plan import Group

_TIMEOUT = timedelta(minutes=30)
"""For any one collective: a rank that saves a large checkpoint makes the others wait. Dead ranks are noticed by their supervisor."""


class Peers:
    """This rank's membership in the job."""

    def __init__(self, group: Group, device: torch.device) -> None:
        """Joins: returns when all ranks are there. Raises a RuntimeError if one of them is not within half an hour."""
        self.group = group
        store = TCPStore(group.host, group.port, is_master=False, timeout=_TIMEOUT)
        prefixed = PrefixStore(group.run, store)
        bound = device if device.type == "cuda" else None
        if bound is not None:
            torch.cuda.set_device(bound)  # events, streams and meshes are of the current device unless told otherwise
        dist.init_process_group(group.backend, store=prefixed, rank=group.rank, world_size=group.world, timeout=_TIMEOUT, device_id=bound)
        self._device = device

    def beside(self) -> dist.ProcessGroup:
        """One more group of all ranks, over gloo whatever the device: for words rather than tensors, and for another thread than the loop's.

        All ranks call it, at the same point.
        """
        return _made(dist.new_group(backend="gloo", timeout=_TIMEOUT))

    def savers(self, layout: Layout) -> Savers:
        """Those that save and load sharded state together. All ranks call it, at the same point."""
        mine = None
        for first in range(0, self.group.world, layout.span):
            made = dist.new_group(list(range(first, first + layout.span)), backend="gloo", timeout=_TIMEOUT)
            if first == layout.replica.start:
                mine = made
        return Savers(layout, self.beside(), _made(mine))

    def share(self, state: dict[str, Any] | None) -> dict[str, Any]:
        """Rank 0's training state on every rank; the others give None. Tensors travel one by one: only one of them is held twice."""
        mine: list[torch.Tensor] = []
        outline = [_outline(state, mine)]
        dist.broadcast_object_list(outline, src=0, device=self._device)
        tensors = iter(mine)

        def filled(part: Any) -> Any:
            if isinstance(part, dict):
                return {key: filled(value) for key, value in part.items()}
            if isinstance(part, list):
                return [filled(value) for value in part]
            if not isinstance(part, _Slot):
                return part
            tensor = next(tensors).to(self._device) if state is not None else torch.empty(part.shape, dtype=part.dtype, device=self._device)
            dist.broadcast(tensor, src=0)
            return tensor

        shared: dict[str, Any] = filled(outline[0])
        return shared

    def wait_for_all(self) -> None:
        """Return when every rank has come this far."""
        dist.barrier(device_ids=[self._device.index] if self._device.type == "cuda" else None)

    def leave(self) -> None:
        """The last collective is done."""
        dist.destroy_process_group()


class Savers:
    """See `checkpoint.sharded.Ranks`. Talks over groups of its own: a save beside the training does so while the loop uses the other."""

    def __init__(self, layout: Layout, everybody: dist.ProcessGroup, replica: dist.ProcessGroup) -> None:
        self.node, self.local, self.processes = layout.node, layout.local, layout.processes
        self.writes, self.part = layout.writes, layout.part
        self.replica_group: dist.ProcessGroup | None = replica
        self._everybody = everybody

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, in the order of the ranks; everybody has come this far then."""
        found: list[Any] = [None] * self._everybody.size()
        dist.all_gather_object(found, value, group=self._everybody)
        return found


def lost_a_peer(error: BaseException) -> bool:
    """Whether an error says that another rank went away, rather than that something is wrong on this one."""
    if isinstance(error, dist.DistError):
        return True
    said = str(error)
    return isinstance(error, RuntimeError) and ("gloo" in said or "Connection closed by peer" in said or "Connection reset by peer" in said)


def _made(group: Any) -> dist.ProcessGroup:
    """A new group; torch gives something else to those that are not in it, and here everybody is."""
    found: dist.ProcessGroup = group
    return found


@dataclass(frozen=True)
class _Slot:
    """A place in the outline of a state where a tensor belongs."""

    shape: torch.Size
    dtype: torch.dtype


def _outline(part: Any, tensors: list[torch.Tensor]) -> Any:
    """A state with each tensor replaced by its shape; the tensors themselves, in order, go into the list."""
    if isinstance(part, torch.Tensor):
        tensors.append(part)
        return _Slot(part.shape, part.dtype)
    if isinstance(part, dict):
        return {key: _outline(value, tensors) for key, value in part.items()}
    return [_outline(value, tensors) for value in part] if isinstance(part, (list, tuple)) else part
