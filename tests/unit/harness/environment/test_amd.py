from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.amd_smi import AmdSmi, Card
from tests.fakes.nvml import Nvml

from plumbline.harness.environment.amd import amd_facts, first_number, first_text, vram_bytes, watts
from plumbline.harness.gpu_meters import open_meters


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


class Partitions(AmdSmi):
    """One card in CPX: its first partition has a name, the others have none."""

    def amdsmi_get_gpu_compute_partition(self, card: Card) -> Any:
        return "CPX"

    def amdsmi_get_gpu_memory_partition(self, card: Card) -> Any:
        return "NPS4"

    def amdsmi_get_gpu_asic_info(self, card: Card) -> dict[str, Any]:
        first = card is self.cards[0]
        return {"market_name": "AMD Instinct MI300X" if first else "N/A", "num_compute_units": 38 if first else "N/A"}

    def amdsmi_get_gpu_vram_usage(self, card: Card) -> dict[str, Any]:
        return {"vram_total": 49148, "vram_used": 100} if card is self.cards[0] else {"vram_total": "N/A", "vram_used": "N/A"}


def test_partitions_are_parts_of_a_card_without_its_power(machine: Path) -> None:
    found = amd_facts(machine, smi := Partitions(Card(), Card()))
    assert [found[f"gpu.{i}.product"] for i in range(2)] == ["AMD-Instinct-MI300X-CPX"] * 2
    assert (found["gpu.1.slice"], found["gpu.0.power_limit_w"], found["gpu.1.compute_units"]) == ("CPX partition", None, None)
    assert (found["gpu.0.memory_bytes"], found["gpu.1.memory_bytes"]) == (49148 * 2**20, None)
    meters = open_meters(Nvml(refuses="Driver Not Loaded"), smi, machine)
    assert meters is not None and "power" not in meters.read(0) and meters.joules(0) is None


def test_rocms_and_hips_variables_choose_one_after_the_other(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Serials(AmdSmi):
        def amdsmi_get_gpu_asic_info(self, card: Card) -> dict[str, Any]:
            number = next(i for i, own in enumerate(self.cards) if own is card)
            return {"market_name": f"AMD Instinct MI30{number}X", "asic_serial": f"0xABC{number}"}

    smi = Serials(Card(), Card(), Card())
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "2,GPU-000000000000abc1")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert [amd_facts(machine, smi)[name] for name in ("gpu.count", "gpu.0.product")] == [1, "AMD-Instinct-MI301X"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2")
    assert "which shows none of 3 GPUs" in str(amd_facts(machine, smi)["gpu.hidden_because"])


@pytest.mark.parametrize(("value", "power"), [(750_000_000, 750.0), (750, 750.0), (0, None), (65535, None), ("N/A", None)])
def test_power_has_the_unit_of_the_release(value: object, power: float | None) -> None:
    assert watts({"power_cap": value}, "power_cap") == power


def test_of_several_readings_of_power_the_first_that_is_one_counts() -> None:
    assert (
        watts(
            {"socket_power": "N/A", "current_socket_power": 0, "average_socket_power": 94},
            "socket_power",
            "current_socket_power",
            "average_socket_power",
        )
        == 94
    )


def test_an_apus_memory_is_not_its_own() -> None:
    assert vram_bytes({"vram_total": 0, "vram_used": 0}, "vram_used") is None
    assert vram_bytes({"vram_total": 196592, "vram_used": 0}, "vram_used") == 0
