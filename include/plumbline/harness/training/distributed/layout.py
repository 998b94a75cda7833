"""How the ranks of a job share the model: which of them hold one replica together, and who writes what of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.harness.training.plan import Group, WorkerSpec


@dataclass(frozen=True)
class Layout:
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
        """Ranks that hold one replica together."""
        return self.shard * self.tensor

    @property
    def replica(self) -> range:
        """The ranks of this rank's replica."""
        first = self.rank // self.span * self.span
        return range(first, first + self.span)

    @property
    def node(self) -> int:
        """The node of this rank."""
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
        """What lies on this node, in words: a checkpoint is only of use where it says the same."""
        return f"node {self.node} with {self.processes} ranks, {self.replicate} x {self.shard} x {self.tensor}"


def layout_of(spec: WorkerSpec, group: Group) -> Layout:
    """The place of a rank. With ddp a shard is one rank."""
    job = spec.parallelism
    replicas = group.world // job["tensor"]
    shard = (job["shard"] or replicas) if job["strategy"] == "fsdp" else 1
    return Layout(group.rank, replicas // shard, shard, job["tensor"], group.world // group.nodes)
