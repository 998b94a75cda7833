"""The collectives between nodes: two "nodes" of this machine, real processes, gloo; and what a node that fails costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plumbline.harness.gang.channel import serve_rendezvous_store
from plumbline.harness.probes.inter_node import COLLECTIVES, CollectiveSpec, RankProcesses, _build_result, measure_collectives

METRICS = [f"inter_node_{name}_{kind}_bandwidth" for name in COLLECTIVES for kind in ("bus", "algorithm")]
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}


@contextmanager
def meeting(limit_s: float) -> Iterator[CollectiveSpec]:
    store, port = serve_rendezvous_store("127.0.0.1")
    try:
        yield CollectiveSpec(2, 1, "cpu", "127.0.0.1", port, limit_s)
    finally:
        del store


@pytest.mark.full
def test_two_nodes_measure_every_collective(tmp_path: Path) -> None:
    with meeting(120.0) as orders, RankProcesses(orders, 1, 1, tmp_path, LOOPBACK) as other:
        found = measure_collectives(RankProcesses(orders, 0, 1, tmp_path, LOOPBACK), lambda: time.sleep(0.02) or other.failure())
    rows = {row.metric: row for row in found.rows}
    assert list(rows) == METRICS
    assert all(row.value and row.n >= 3 and row.method and row.phase == "environment" for row in rows.values()), rows
    # Of two ranks the bus carries of an all-reduce all bytes, of the others half.
    for name, factor in (("all_reduce", 1.0), ("all_gather", 0.5), ("all_to_all", 0.5)):
        bus, algorithm = (rows[f"inter_node_{name}_{kind}_bandwidth"].value for kind in ("bus", "algorithm"))
        assert bus == pytest.approx(factor * algorithm)
    assert found.facts == {"network.inter_node_transport": "gloo over TCP"}
    assert [(curve.along, len(curve.points)) for curve in found.curves] == [("message_bytes", 2)] * 3


@pytest.mark.full  # what is left of a failed measurement is tried below, a rank that cannot join in test_probes.py
def test_a_node_that_cannot_take_part_costs_the_rows_and_says_why(tmp_path: Path) -> None:
    with meeting(60.0) as orders, RankProcesses(orders, 1, 1, tmp_path, {"GLOO_SOCKET_IFNAME": "no-such-card"}) as other:
        found = measure_collectives(RankProcesses(orders, 0, 1, tmp_path, LOOPBACK), lambda: time.sleep(0.02) or other.failure())
    assert {row.value for row in found.rows} == {None}
    assert all(row.reason is not None and row.reason.startswith("rank") for row in found.rows)
    assert found.curves == []


def test_a_folder_that_cannot_be_written_is_a_reason(tmp_path: Path) -> None:
    found = measure_collectives(
        RankProcesses(CollectiveSpec(2, 1, "cpu", "127.0.0.1", 1, 1.0), 0, 1, tmp_path / "not-there", {}), lambda: None
    )
    assert [(row.metric, row.value) for row in found.rows] == [(metric, None) for metric in METRICS]
    assert all("not-there" in (row.reason or "") for row in found.rows)


def test_what_was_measured_before_a_failure_counts() -> None:
    lines = [
        {"collective": "all_reduce", "bytes": 2**20, "seconds": 0.01, "n": 9},
        {"collective": "all_reduce", "bytes": 2**30, "seconds": 1.0, "n": 3},
        {"collective": "all_gather", "failed": "no such algorithm"},
    ]
    late = "took longer than 60 s"
    found = _build_result(CollectiveSpec(2, 8, "cuda", "node", 1, 60.0), lines, "NET/Socket", late)
    rows = {row.metric: row for row in found.rows}
    assert rows["inter_node_all_reduce_algorithm_bandwidth"].value == 2**30
    assert rows["inter_node_all_reduce_bus_bandwidth"].value == pytest.approx(2**30 * 2 * 15 / 16)
    ranks, transport, sizes = str(rows["inter_node_all_reduce_bus_bandwidth"].method).split(", ")
    assert ranks.startswith("16 ranks ") and transport == "NET/Socket" and sizes.split(" to ") == ["1 MiB", "1 GiB"]
    assert rows["inter_node_all_gather_bus_bandwidth"].reason == "no such algorithm"
    assert rows["inter_node_all_to_all_bus_bandwidth"].reason == late
