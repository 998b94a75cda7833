from __future__ import annotations

import pytest

from plumbline.harness.probes.inter_node import nccl_transport

HEAD = "gang-0:41:52 [0] NCCL INFO "
CHANNEL = HEAD + "Channel 00/0 : 8[0] -> 0[0] [receive] via "


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (CHANNEL + "NET/Socket/0\n", "NET/Socket"),
        (CHANNEL + "NET/IB/3/GDRDMA\n" + CHANNEL + "NET/IB/0/GDRDMA\n", "NET/IB, GPUDirect RDMA"),
        (CHANNEL + "NET/AWS Libfabric/1/GDRDMA\n", "NET/AWS Libfabric, GPUDirect RDMA"),
        (CHANNEL + "NET/FasTrak/0\n", "NET/FasTrak"),
        (CHANNEL + "NET/IB/0\n" + CHANNEL + "NET/IB/1/GDRDMA\n", "NET/IB; NET/IB, GPUDirect RDMA"),
        (HEAD + "Using network AWS Libfabric\n", "NET/AWS Libfabric"),
        (HEAD + "Using network IB\n" + CHANNEL + "P2P/CUMEM\n" + CHANNEL + "NET/Socket/0\n", "NET/Socket"),
        (CHANNEL + "P2P/IPC\n", None),
        ("", None),
    ],
)
def test_the_network_between_nodes_is_read_from_the_log(log: str, expected: str | None) -> None:
    assert nccl_transport(log) == expected
