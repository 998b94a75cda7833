from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.harness.environment import network


def put(root: Path, name: str, content: bytes = b"") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)


@pytest.fixture(autouse=True)
def no_library_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def test_what_the_efa_installer_puts_on_a_node_is_named(tmp_path: Path) -> None:
    put(tmp_path, "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", b"\x00Initializing aws-ofi-nccl 1.16.3\x00Using transport protocol\x00")
    put(tmp_path, "opt/amazon/efa/lib64/pkgconfig/libfabric.pc", b"Name: libfabric\nVersion: 2.1.0amzn3.0\n")
    put(tmp_path, "opt/amazon/efa_installed_packages", b"# EFA installer version: 1.43.2\n# Debug packages installed: no\n")
    put(tmp_path, "sys/module/efa/version", b"2.17.2g\n")
    assert network.fabric_facts(tmp_path) == {
        "nccl.net_plugin": "libnccl-net-ofi",
        "ofi_nccl.version": "1.16.3",
        "libfabric.version": "2.1.0amzn3.0",
        "efa.installer": "1.43.2",
        "efa.driver": "2.17.2g",
    }


def test_a_plugin_of_another_kind_has_no_version_of_ofi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "relative:/usr/local/fasttrak/lib64")
    put(tmp_path, "usr/local/fasttrak/lib64/libnccl-net.so", b"TCPXO")
    found = network.fabric_facts(tmp_path)
    assert (found["nccl.net_plugin"], found["ofi_nccl.version"]) == ("libnccl-net", None)


def test_an_older_plugin_under_nccls_own_name_is_known_by_its_content(tmp_path: Path) -> None:
    put(tmp_path, "opt/aws-ofi-nccl/lib/libnccl-net.so", b"\x00NET/OFI Initializing aws-ofi-nccl 1.7.4-aws\x00")
    assert network.fabric_facts(tmp_path)["ofi_nccl.version"] == "1.7.4-aws"


def test_where_there_is_nothing_every_fact_is_absent(tmp_path: Path) -> None:
    assert set(network.fabric_facts(tmp_path).values()) == {None}
