"""AMD SMI's functions over cards that answer as its Python package does: numbers, and N/A for what a card does not tell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


class AmdSmiError(Exception):
    """As the library raises it."""


@dataclass
class Card:
    """`tells`: it answers more than what it is. `ecc`: its counts of errors; `bad_pages`: as many, or in words that there are none."""

    watts: float = 700.0
    tells: bool = True
    ecc: dict[str, int] | None = None
    replays: int | str = "N/A"
    bad_pages: int | str = "No bad pages found."


class AmdSmi:
    """The module. `opened` is how often it was initialised and not shut down; `refuses`: what amdsmi_init raises."""

    AmdSmiException = AmdSmiError
    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, *cards: Card, refuses: str | None = None) -> None:
        self.cards, self.refuses, self.opened = cards, refuses, 0

    def amdsmi_init(self) -> None:
        if self.refuses:
            raise AmdSmiError(self.refuses)
        self.opened += 1

    def amdsmi_shut_down(self) -> None:
        self.opened -= 1

    def amdsmi_get_processor_handles(self) -> list[Card]:
        return list(self.cards)

    def amdsmi_get_gpu_device_uuid(self, card: Card) -> str:
        return f"uuid-{self.cards.index(card)}"

    def amdsmi_get_gpu_driver_info(self, card: Card) -> dict[str, Any]:
        return {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "N/A"}

    def amdsmi_get_gpu_asic_info(self, card: Card) -> dict[str, Any]:
        return {"market_name": "AMD Instinct MI300X", "num_compute_units": 304, "target_graphics_version": "gfx942"}

    def amdsmi_get_gpu_vbios_info(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"version": "022.040.003.043.000001", "part_number": "N/A"})

    def amdsmi_get_gpu_vram_usage(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"vram_total": 196592, "vram_used": 1024})

    def amdsmi_get_power_cap_info(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"power_cap": 750_000_000, "default_power_cap": 750_000_000})

    def amdsmi_get_pcie_info(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"pcie_static": {"max_pcie_width": 16}, "pcie_metric": {"pcie_replay_count": card.replays}})

    def amdsmi_get_gpu_total_ecc_count(self, card: Card) -> Any:
        if card.ecc is None:
            raise AmdSmiError("AMDSMI_STATUS_NOT_SUPPORTED")
        return self._told(card, card.ecc)

    def amdsmi_get_gpu_bad_page_info(self, card: Card) -> Any:
        return self._told(card, [{"value": i} for i in range(card.bad_pages)] if isinstance(card.bad_pages, int) else card.bad_pages)

    def amdsmi_get_gpu_compute_partition(self, card: Card) -> Any:
        return self._told(card, "SPX")

    def amdsmi_get_gpu_memory_partition(self, card: Card) -> Any:
        return self._told(card, "NPS1")

    def amdsmi_get_clock_info(self, card: Card, which: str) -> dict[str, Any]:
        return self._told(card, {"gfx": {"clk": 2100, "max_clk": 2100}, "mem": {"clk": 1300, "max_clk": 1300}}[which])

    def amdsmi_get_power_info(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"current_socket_power": card.watts, "average_socket_power": "N/A"})

    def amdsmi_get_temp_metric(self, card: Card, sensor: str, metric: str) -> Any:
        return self._told(card, 61)

    def amdsmi_get_gpu_activity(self, card: Card) -> dict[str, Any]:
        return self._told(card, {"gfx_activity": 99, "umc_activity": "N/A"})

    def amdsmi_get_energy_count(self, card: Card) -> dict[str, Any]:
        ticks = round(card.watts * time.monotonic() * 1e6 / 15.3)
        return self._told(card, {"energy_accumulator": ticks, "counter_resolution": 15.3})

    def _told(self, card: Card, answer: Any) -> Any:
        if not card.tells:
            raise AmdSmiError("AMDSMI_STATUS_NOT_SUPPORTED")
        return answer
