"""Which ranks hold one replica together, and who writes."""

from __future__ import annotations

import pytest

from plumbline.harness.training.distributed.process_group import MeshLayout


def layouts(replicate: int, shard: int, tensor: int, processes: int) -> list[MeshLayout]:
    return [MeshLayout(rank, replicate, shard, tensor, processes) for rank in range(replicate * shard * tensor)]


@pytest.mark.parametrize(
    ("shape", "replicas", "writers"),
    [
        ((1, 4, 1, 2), [range(4)], [0, 1, 2, 3]),  # one replica over two nodes: each keeps its part
        ((2, 2, 1, 2), [range(2), range(2, 4)], [0, 1, 2, 3]),  # a replica on each node: each keeps a whole one
        ((2, 2, 1, 4), [range(2), range(2, 4)], [0, 1]),  # two replicas on one node: one of them is enough
        ((2, 1, 2, 4), [range(2), range(2, 4)], [0, 1]),
        ((1, 2, 2, 4), [range(4)], [0, 1, 2, 3]),
    ],
)
def test_each_node_keeps_what_its_ranks_need_once(shape: tuple[int, int, int, int], replicas: list[range], writers: list[int]) -> None:
    found = layouts(*shape)
    assert sorted({layout.replica for layout in found}, key=lambda one: one.start) == replicas
    assert [layout.rank for layout in found if layout.writes] == writers
    assert all(layout.writes for layout in found if layout.local == 0)


def test_parts_of_two_nodes_are_told_apart() -> None:
    assert len({layout.part for layout in layouts(1, 4, 1, 2)}) == 2
