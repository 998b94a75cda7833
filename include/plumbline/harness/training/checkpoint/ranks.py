"""The processes that save a checkpoint together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch.distributed as dist


class CheckpointRanks(Protocol):
    """The ranks that save and load together, each told of its place."""

    node: int
    local: int
    processes: int
    writes: bool
    part: str
    replica_group: dist.ProcessGroup | None

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, in the order of the ranks; everybody has come this far then."""


@dataclass
class SingleProcess:
    """One process that holds the whole state. `replica_group`: of a job whose other ranks do not save, one that a CPU can talk through."""

    node: int = 0
    local: int = 0
    processes: int = 1
    writes: bool = True
    part: str = "all"
    replica_group: dist.ProcessGroup | None = None

    def gather(self, value: Any) -> list[Any]:
        """The value itself."""
        return [value]
