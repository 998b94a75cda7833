from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.amd_smi import AmdSmi, Card

from plumbline.harness.environment.amd import amd_facts, first_number, first_text


@pytest.fixture(autouse=True)
def every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The root of a machine with AMD's driver in the kernel and ROCm installed."""
    for name, content in {"dev/kfd": "", "opt/rocm/.info/version": "7.0.2-56\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_every_card_is_described(machine: Path) -> None:
    found = amd_facts(machine, smi := AmdSmi(Card(), Card()))
    assert (found["gpu.count"], found["driver.version"], found["rocm.version"]) == (2, "6.12.12", "7.0.2-56")
    assert {name.removeprefix("gpu.1."): value for name, value in found.items() if name.startswith("gpu.1.")} == {
        "product": "AMD-Instinct-MI300X",
        "architecture": "gfx942",
        "compute_units": 304,
        "memory_bytes": 196592 * 2**20,
        "vbios": "022.040.003.043.000001",
        "sm_clock_max_mhz": 2100.0,
        "memory_clock_max_mhz": 1300.0,
        "power_limit_w": 750.0,
        "power_limit_default_w": 750.0,
        "compute_partition": "SPX",
        "memory_partition": "NPS1",
        "pcie_width_max": 16,
    }
    assert smi.opened == 0


def test_what_a_guests_card_does_not_tell_is_none(machine: Path) -> None:
    found = amd_facts(machine, AmdSmi(Card(tells=False)))
    assert (found["gpu.0.product"], found["gpu.0.power_limit_w"], found["gpu.0.vbios"]) == ("AMD-Instinct-MI300X", None, None)


def test_without_the_kernels_driver_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert amd_facts(tmp_path, AmdSmi(Card())) == {}


def test_cards_that_nobody_can_ask_are_not_none(machine: Path) -> None:
    facts = amd_facts(machine, AmdSmi(Card(), refuses="AMDSMI_STATUS_DRIVER_NOT_LOADED"))
    assert facts["gpu.count"] is None
    assert "/dev/kfd" in str(facts["gpu.unknown_because"]) and "AMDSMI_STATUS_DRIVER_NOT_LOADED" in str(facts["gpu.unknown_because"])


def test_a_hidden_card_does_not_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "")
    assert amd_facts(machine, AmdSmi(Card()))["gpu.count"] == 0


def test_not_available_is_neither_a_number_nor_a_word() -> None:
    answer = {"socket_power": "N/A", "current_socket_power": 400, "name": "N/A", "flag": True}
    assert first_number(answer, "socket_power", "current_socket_power") == 400.0
    assert (first_number(answer, "flag"), first_number(None, "socket_power"), first_text(answer, "name"), first_text(None, "name")) == (
        None,
        None,
        None,
        None,
    )
