"""Traffic, retransmissions and RDMA errors, as the kernel counts them."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.environment.cpu import usable_cores
from plumbline.harness.network_counters import counter_rows, read_counters
from plumbline.metrics import Phase

NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  999999    10    0    0    0     0          0         0  999999    10    0    0    0     0       0          0
  eth0:    5000    50    0    0    0     0          0         0    7000    40    0    0    0     0       0          0
  net1:     300     3    0    0    0     0          0         0      20     1    0    0    0     0       0          0
"""
PHASES: tuple[Phase, ...] = ("warmup", "steady", "steady")
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm OutSegs RetransSegs
Tcp: 1 1000 4
"""


def machine(root: Path, adapters: dict[str, int]) -> Path:
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/net/dev").write_text(NET_DEV)
    (root / "proc/net/snmp").write_text(SNMP)
    for name, value in adapters.items():
        file = root / "sys/class/infiniband" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return root


def test_all_cards_but_the_loopback_count_and_errors_by_adapter(tmp_path: Path) -> None:
    adapters = {
        "mlx5_0/ports/1/counters/symbol_error": 2,
        "mlx5_0/ports/2/counters/symbol_error": 1,
        "mlx5_0/ports/1/hw_counters/packet_seq_err": 7,
        "mlx5_0/ports/1/hw_counters/rx_write_requests": 12345,
    }
    assert read_counters(machine(tmp_path, adapters)) == {
        "received": 5300,
        "sent": 7020,
        "segments": 1000,
        "retransmitted": 4,
        "rdma.mlx5_0.symbol_error": 3,
        "rdma.mlx5_0.packet_seq_err": 7,
    }


def test_a_machine_without_these_files_has_no_rows(tmp_path: Path) -> None:
    assert read_counters(tmp_path) == {} and counter_rows("steady", Counter()) == []


def test_rows_of_what_was_gained() -> None:
    gained = Counter({"received": 10, "sent": 0, "segments": 200, "retransmitted": 3, "rdma.a.symbol_error": 0, "rdma.b.packet_seq_err": 2})
    received, sent, again, rdma = counter_rows("steady", gained)
    assert (received.metric, received.value, sent.metric, sent.value) == ("network_received_bytes", 10, "network_sent_bytes", 0)
    assert (again.metric, again.value, again.n) == ("tcp_retransmit_share", 0.015, 200)
    assert again.ci_low is not None and again.ci_low < 0.015 < (again.ci_high or 0)
    assert (rdma.metric, rdma.value, rdma.method) == ("rdma_errors", 2, "b.packet_seq_err 2")
    quiet = counter_rows("steady", Counter({"segments": 0, "retransmitted": 0, "rdma.a.symbol_error": 0}))
    assert [(row.metric, row.value, row.method) for row in quiet] == [("rdma_errors", 0, None)]


def test_the_monitor_counts_the_judged_phases_only() -> None:
    with ContentionMonitor(usable_cores()) as monitor:
        for phase in PHASES:
            with (
                monitor.phase(phase),
                socket.create_server(("127.0.0.1", 0)) as server,
                socket.create_connection(server.getsockname()) as client,
            ):
                client.sendall(b"x")
    rows = monitor.network_rows()
    assert {row.phase for row in rows} == {"steady"}
    (share,) = (row for row in rows if row.metric == "tcp_retransmit_share")
    assert share.n >= 2 and len({row.metric for row in rows}) == len(rows), "both times of the phase are in one row"
