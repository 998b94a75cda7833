"""NVML's functions over GPUs that draw what they are told to. NVML is a library of the driver: without a GPU there is no real one to ask."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NvmlError(Exception):
    """As the library raises it."""


@dataclass
class Card:
    """A GPU that draws `watts` evenly, with `used` bytes in use. `counts`: it has a counter of energy; `tells`: it answers at all; `reasons`: the bits of why it does
    not run at its clocks.

    What it does not have is None: `ecc` by (error type, counter type), `rows` remapped, `retired` pages by cause, PCIe `replays`, `links` with
    their counters of errors, `violations` in ns by policy. `events`: XIDs that wait to be fetched; None: it delivers none.
    """

    watts: float = 300.0
    used: float = 90e9
    counts: bool = True
    tells: bool = True
    reasons: int = 0
    ecc: dict[tuple[int, int], int] | None = None
    rows: tuple[int, int, int, int] | None = None
    retired: dict[int, int] | None = None
    replays: int | None = None
    links: list[dict[int, int] | None] = field(default_factory=list)
    violations: dict[int, int] | None = None
    events: list[int] | None = None
    name: str = "NVIDIA H100 80GB HBM3"


class Nvml:
    """The module. `opened` is how often it was initialised and not shut down; `refuses`: what nvmlInit raises."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_SINGLE_BIT_ECC, NVML_DOUBLE_BIT_ECC = 0, 1
    NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC = 0, 1
    NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 0, 1
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL, NVML_PERF_POLICY_BOARD_LIMIT, NVML_PERF_POLICY_RELIABILITY = 0, 1, 3, 5
    NVML_NVLINK_MAX_LINKS, NVML_FEATURE_ENABLED = 36, 1
    NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY = 0, 1
    NVML_NVLINK_ERROR_DL_CRC_FLIT, NVML_NVLINK_ERROR_DL_CRC_DATA = 2, 3
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, *cards: Card, refuses: str | None = None) -> None:
        self.cards, self.refuses, self.opened, self.event_sets = cards, refuses, 0, 0

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

    def nvmlDeviceGetName(self, card: Card) -> str:
        return card.name

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def __getattr__(self, name: str) -> Any:
        """What else a driver can be asked: these cards do not support it."""
        if name.startswith("NVML_"):
            return 0
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def refuse(*_: Any) -> None:
            raise NvmlError("Not Supported")

        return refuse

    def nvmlDeviceGetPowerUsage(self, card: Card) -> int:
        return round(self._of(card, card.watts) * 1e3)

    def nvmlDeviceGetClockInfo(self, card: Card, which: int) -> int:
        return round(self._of(card, {self.NVML_CLOCK_SM: 1980, self.NVML_CLOCK_MEM: 3201}[which]))

    def nvmlDeviceGetTemperature(self, card: Card, sensor: int) -> int:
        return round(self._of(card, 55))

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> SimpleNamespace:
        return SimpleNamespace(total=self._of(card, 150e9), used=self._of(card, card.used))

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._of(card, 97), memory=self._of(card, 40))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Card) -> int:
        return round(self._of(card, card.reasons))

    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        """Millijoules since whenever."""
        if not card.counts:
            raise NvmlError("Not Supported")
        return round(self._of(card, card.watts) * time.monotonic() * 1e3)

    def nvmlDeviceGetTotalEccErrors(self, card: Card, kind: int, since: int) -> int:
        return int(self._of(card, self._had(card.ecc)[kind, since]))

    def nvmlDeviceGetRemappedRows(self, card: Card) -> tuple[int, int, int, int]:
        self._of(card, 0)
        return self._had(card.rows)

    def nvmlDeviceGetRetiredPages(self, card: Card, cause: int) -> list[int]:
        self._of(card, 0)
        return list(range(self._had(card.retired)[cause]))

    def nvmlDeviceGetRetiredPagesPendingStatus(self, card: Card) -> int:
        self._had(card.retired)
        return int(self._of(card, 0))

    def nvmlDeviceGetPcieReplayCounter(self, card: Card) -> int:
        return int(self._of(card, self._had(card.replays)))

    def nvmlDeviceGetViolationStatus(self, card: Card, policy: int) -> SimpleNamespace:
        return SimpleNamespace(referenceTime=0, violationTime=int(self._of(card, self._had(card.violations).get(policy, 0))))

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> int:
        if link >= len(card.links):
            raise NvmlError("Invalid Argument")
        return int(self._of(card, card.links[link] is not None))

    def nvmlDeviceGetNvLinkErrorCounter(self, card: Card, link: int, counter: int) -> int:
        counters = self._had(card.links[link])
        if counter not in counters:
            raise NvmlError("Not Supported")
        return int(self._of(card, counters[counter]))

    def nvmlDeviceGetPciInfo(self, card: Card) -> SimpleNamespace:
        return SimpleNamespace(domain=0, bus=0x1B + next(i for i, own in enumerate(self.cards) if own is card), device=0)

    def nvmlEventSetCreate(self) -> list[Card]:
        self.event_sets += 1
        return []

    def nvmlEventSetFree(self, events: list[Card]) -> None:
        self.event_sets -= 1

    def nvmlDeviceRegisterEvents(self, card: Card, types: int, events: list[Card]) -> None:
        self._had(card.events)
        events.append(card)

    def nvmlEventSetWait(self, events: list[Card], timeout_ms: int) -> SimpleNamespace:
        """Also of a card that fell off the bus and answers nothing else."""
        for card in events:
            if card.events:
                return SimpleNamespace(eventType=self.nvmlEventTypeXidCriticalError, eventData=card.events.pop(0))
        raise NvmlError("Timeout")

    def _had(self, value: Any) -> Any:
        if value is None:
            raise NvmlError("Not Supported")
        return value

    def _of(self, card: Card, value: Any) -> float:
        if not card.tells:
            raise NvmlError("Not Supported")
        return float(value)
