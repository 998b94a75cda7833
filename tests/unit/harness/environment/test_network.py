from __future__ import annotations

from pathlib import Path

from plumbline.harness.environment import network


def card(root: Path, kind: str, name: str, driver: str | None, **values: str) -> None:
    folder = root / "sys/class" / kind / name
    folder.mkdir(parents=True)
    for field, value in values.items():
        (folder / field.replace("__", "/")).parent.mkdir(exist_ok=True, parents=True)
        (folder / field.replace("__", "/")).write_text(value)
    if driver:
        (folder / "device").mkdir()
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (folder / "device/driver").symlink_to(root / "drivers" / driver)


def test_cards_and_adapters_are_numbered_as_people_count(tmp_path: Path) -> None:
    slow, fast = "100 Gb/sec (4X EDR)", "400 Gb/sec (4X NDR)"
    card(tmp_path, "net", "lo", None, mtu="65536")
    card(tmp_path, "net", "ens10", "mlx5_core", mtu="9000", speed="400000")
    card(tmp_path, "net", "ens9", "ena", mtu="9001", speed="-1")
    card(tmp_path, "net", "veth3f", None, mtu="1500", speed="10000")
    card(
        tmp_path,
        "infiniband",
        "mlx5_10",
        "mlx5_core",
        fw_ver="28.39",
        ports__1__rate=fast,
        ports__1__link_layer="InfiniBand",
    )
    card(tmp_path, "infiniband", "mlx5_2", "mlx5_core", fw_ver="28.40", ports__1__rate=slow, ports__1__link_layer="Ethernet")
    assert network.network_facts(tmp_path) == {
        "network.interfaces": 2,
        "network.congestion_control": None,
        "network.0.driver": "ena",
        "network.0.speed_mbps": None,
        "network.0.mtu": 9001,
        "network.1.driver": "mlx5_core",
        "network.1.speed_mbps": 400000,
        "network.1.mtu": 9000,
        "infiniband.adapters": 2,
        "infiniband.0.driver": "mlx5_core",
        "infiniband.0.rate": slow,
        "infiniband.0.link_layer": "Ethernet",
        "infiniband.0.firmware": "28.40",
        "infiniband.1.driver": "mlx5_core",
        "infiniband.1.rate": fast,
        "infiniband.1.link_layer": "InfiniBand",
        "infiniband.1.firmware": "28.39",
    }


def test_a_pods_way_out_counts_although_it_is_no_card(tmp_path: Path) -> None:
    card(tmp_path, "net", "eth0", None, mtu="8951", speed="10000")
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text("Iface\tDestination\tGateway\neth0\t0001A8C0\t0\neth0\t00000000\t0101A8C0\n")
    found = network.network_facts(tmp_path)
    assert (found["network.interfaces"], found["network.0.mtu"], found["network.0.driver"]) == (1, 8951, None)
