from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from plumbline.harness.probes import memory


def test_a_thread_runs_on_the_nodes_cores_while_the_block_runs(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    (tmp_path / "devices/system/node/node1").mkdir(parents=True)
    (tmp_path / "devices/system/node/node1/cpulist").write_text(f"{core},{max(before) + 1}-{max(before) + 8}\n")
    with memory.bound_to_node(1, tmp_path) as where:
        assert os.sched_getaffinity(0) == {core}
        assert where.endswith(f"node 1, cores {core}")
    assert os.sched_getaffinity(0) == before


def test_without_a_usable_core_there_nothing_is_bound(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    for node in (None, 3):
        with memory.bound_to_node(node, tmp_path) as where:
            assert os.sched_getaffinity(0) == before
            assert where.startswith("not bound")


def test_the_node_is_the_one_that_sysfs_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "pci_address", lambda _: "0000:0f:00.0")
    device = tmp_path / "bus/pci/devices/0000:0f:00.0"
    device.mkdir(parents=True)
    for text, expected in (("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)):
        (device / "numa_node").write_text(text)
        assert memory.numa_node_of(torch.device("cuda", 0), tmp_path) == expected
    assert memory.numa_node_of(torch.device("cpu"), tmp_path) is None
