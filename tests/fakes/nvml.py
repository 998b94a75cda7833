"""NVML's functions over GPUs that draw what they are told to. NVML is a library of the driver: without a GPU there is no real one to ask."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


class NvmlError(Exception):
    """As the library raises it."""


@dataclass
class Card:
    """A GPU that draws `watts` evenly. `counts`: it has a counter of energy; `tells`: it answers at all."""

    watts: float = 300.0
    counts: bool = True
    tells: bool = True


class Nvml:
    """The module. `opened` is how often it was initialised and not shut down; `refuses`: what nvmlInit raises."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def __init__(self, *cards: Card, refuses: str | None = None) -> None:
        self.cards, self.refuses, self.opened = cards, refuses, 0

    def nvmlInit(self) -> None:
        if self.refuses:
            raise NvmlError(self.refuses)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, i: int) -> Card:
        return self.cards[i]

    def nvmlDeviceGetUUID(self, card: Card) -> bytes:
        return b"GPU-%d" % self.cards.index(card)

    def nvmlDeviceGetPowerUsage(self, card: Card) -> int:
        return round(self._of(card, card.watts) * 1e3)

    def nvmlDeviceGetClockInfo(self, card: Card, which: int) -> int:
        return round(self._of(card, 1980 if which == self.NVML_CLOCK_SM else 0))

    def nvmlDeviceGetTemperature(self, card: Card, sensor: int) -> int:
        return round(self._of(card, 55))

    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        """Millijoules since whenever."""
        if not card.counts:
            raise NvmlError("Not Supported")
        return round(self._of(card, card.watts) * time.monotonic() * 1e3)

    def _of(self, card: Card, value: Any) -> float:
        if not card.tells:
            raise NvmlError("Not Supported")
        return float(value)
