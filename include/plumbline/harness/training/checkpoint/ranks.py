"""The ranks that save and load a checkpoint together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch.distributed as dist


class CheckpointRanks(Protocol):
    """The ranks that save and load together, each with its place."""

    node: int
    local: int
    processes: int
    writes: bool
    part: str
    replica_group: dist.ProcessGroup | None

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values in order; a barrier."""


@dataclass
class SingleProcess:
    """One process that holds the whole state, alone or for all ranks of its job."""

    node: int = 0
    local: int = 0
    processes: int = 1
    writes: bool = True
    part: str = "all"
    replica_group: dist.ProcessGroup | None = None

    def gather(self, value: Any) -> list[Any]:
        return [value]
