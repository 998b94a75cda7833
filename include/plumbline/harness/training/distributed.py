"""What makes one rank of many out of a trainer: the process group, averaged gradients, and state that all ranks share.

The same code for gloo on CPUs and NCCL on GPUs. Imported only where there is more than one rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore  # torch.distributed re-exports them untyped
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from plumbline.harness.training.link import listening
from plumbline.harness.training.place import Address
from plumbline.harness.training.plan import Group

_TIMEOUT = timedelta(minutes=30)
"""For any one collective: a rank that saves a large checkpoint makes the others wait. Dead ranks are noticed by their supervisor."""


def serve(host: str) -> tuple[TCPStore, int]:
    """The store through which ranks find each other, and its port: on loopback for a loopback `host`, else on every interface.

    It lives in the harness of node 0 and so outlives the ranks of one run: the next run's use other keys in it.
    """
    server = listening(Address(host, 0))
    port = int(server.getsockname()[1])
    # The socket is the store's from here on.
    return TCPStore("localhost", port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach()), port


class Peers:
    """This rank's membership in the job."""

    def __init__(self, group: Group, device: torch.device) -> None:
        """Joins: returns when all ranks are there. Raises a RuntimeError if one of them is not within half an hour."""
        self.group = group
        store = TCPStore(group.host, group.port, is_master=False, timeout=_TIMEOUT)
        prefixed = PrefixStore(group.run, store)
        bound = device if device.type == "cuda" else None
        dist.init_process_group(group.backend, store=prefixed, rank=group.rank, world_size=group.world, timeout=_TIMEOUT, device_id=bound)
        everybody = dist.group.WORLD
        assert everybody is not None
        self._everybody = everybody
        self._device = device
        self._ready_ns = 0
        self._ready_event: torch.cuda.Event | None = None

    def replicate(self, model: torch.nn.Module) -> DistributedDataParallel:
        """The model as one replica of many: its gradients are averaged over all ranks while backward runs."""
        self._replica = DistributedDataParallel(
            model, device_ids=[self._device] if self._device.type == "cuda" else None, gradient_as_bucket_view=True
        )
        self._replica.register_comm_hook(None, self._reduce)
        return self._replica

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """Gradients of the block stay on this rank: they are added up until the last micro-batch of a step."""
        quiet: contextlib.AbstractContextManager[None] = self._replica.no_sync()
        return quiet

    # Without annotations: DDP compares them with the classes themselves, and here they are strings.
    def _reduce(self, _, bucket):  # type: ignore[no-untyped-def]
        """Called for each bucket once this rank's gradients in it are there; the last call of a backward is what `exposed` counts from."""
        if self._device.type == "cuda":
            self._ready_event = _timed()
            self._ready_event.record()
        else:
            self._ready_ns = monotonic_ns()
        return allreduce_hook(self._everybody, bucket)

    def exposed(self) -> Callable[[], int]:
        """How long (ns) the backward that ends now waited for other ranks after this rank's own gradients were all there; asked later.

        The part of the averaging that ran beside the backward is hidden and costs nothing; a slower rank is waited for here too.
        """
        if self._device.type != "cuda":
            waited = monotonic_ns() - self._ready_ns
            return lambda: waited
        ready, end = self._ready_event, _timed()
        end.record()
        assert ready is not None
        return lambda: int(ready.elapsed_time(end) * 1e6)

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


def _timed() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def lost_a_peer(error: BaseException) -> bool:
    """Whether an error says that another rank went away, rather than that something is wrong on this one."""
    if isinstance(error, dist.DistError):
        return True
    said = str(error)
    return isinstance(error, RuntimeError) and ("gloo" in said or "Connection closed by peer" in said or "Connection reset by peer" in said)


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
