"""Readings of GPUs' own sensors: NVIDIA's by NVML, AMD's by AMD SMI, in the same words and units.

power          W
sm_clock       MHz, of the multiprocessors (AMD: of the shader engines)
memory_clock   MHz
temperature    °C, of the die
memory_used    bytes, by all processes
utilization    share of the driver's own last window in which a kernel ran
throttled      1 while heat or the power supply lowers the GPU's clocks; `throttle_<reason>` gives the reason. The power limit lowers every
               GPU's clocks under full load, so `throttle_power_limit` does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from plumbline.harness import gpu_errors
from plumbline.harness.environment.amd import AmdDevice, AmdDriver, first_number, vram_bytes, watts
from plumbline.harness.environment.nvidia import DriverUnavailable, NvidiaDevice, NvidiaDriver, slice_of
from plumbline.harness.environment.sysfs import ROOT
from plumbline.harness.gpu_errors import XidListener

SIGNAL_UNITS = {
    "power": "W",
    "sm_clock": "MHz",
    "memory_clock": "MHz",
    "temperature": "°C",
    "memory_used": "bytes",
    "utilization": "ratio",
    "throttled": "ratio",
}
"""Units of the signals above; a reason has `ratio`."""

THROTTLE_REASONS = {
    "throttle_power_limit": "its power limit",
    "throttle_hardware": "the hardware's own slowdown",
    "throttle_driver_temperature": "the driver's temperature limit",
    "throttle_hardware_temperature": "the hardware's temperature limit",
    "throttle_power_brake": "the server's power brake",
}
_BITS = dict(zip(THROTTLE_REASONS, (0x04, 0x08, 0x20, 0x40, 0x80), strict=True))
"""NVML's clocks event reasons, without idle, configured clocks (an environment fact), sync boost and displays."""
HARMFUL_THROTTLING = tuple(name for name in THROTTLE_REASONS if name != "throttle_power_limit")


def _open_nvidia(nvml: Any, root: Path) -> _NvidiaMeters | None:
    try:
        driver = NvidiaDriver(nvml)
    except DriverUnavailable:
        return None
    with suppress(driver.library.NVMLError):
        if devices := driver.devices():
            return _NvidiaMeters(driver, devices, root)
    driver.close()
    return None


class _NvidiaMeters:
    """Memory and use are the device's; a part of a card has neither its power nor its energy. A card that does not answer reads nothing."""

    def __init__(self, driver: NvidiaDriver, devices: list[NvidiaDevice], root: Path) -> None:
        self._driver, self._devices, self._root = driver, devices, root
        self._whole = [device.fault is None and slice_of(driver, device) is None for device in devices]
        self.count = len(devices)
        self._xids: XidListener | None = None

    def close(self) -> None:
        if self._xids is not None:
            self._xids.close()
        self._driver.close()

    def read(self, gpu: int) -> dict[str, float]:
        """The signals above by name."""
        device = self._devices[gpu]
        if device.fault is not None:
            return {}
        ask, card = self._driver.ask, device.card
        memory, busy = self._driver.memory(device), ask("nvmlDeviceGetUtilizationRates", device.handle)
        values = {
            "power": ask("nvmlDeviceGetPowerUsage", card) if self._whole[gpu] else None,
            "sm_clock": ask("nvmlDeviceGetClockInfo", card, "NVML_CLOCK_SM"),
            "memory_clock": ask("nvmlDeviceGetClockInfo", card, "NVML_CLOCK_MEM"),
            "temperature": ask("nvmlDeviceGetTemperature", card, "NVML_TEMPERATURE_GPU"),
            "memory_used": getattr(memory, "used", None),
            "utilization": getattr(busy, "gpu", None),
        }
        # The older name of "clocks event reasons": drivers before 535 know no other, and later ones know it too.
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons", card)
        active = {name: float(bool(bits & bit)) for name, bit in _BITS.items()} if isinstance(bits, int) else {}
        if active:
            active["throttled"] = max(active[name] for name in HARMFUL_THROTTLING)
        return _plausible(values, {"power": 1e-3, "utilization": 1e-2}) | active

    def joules(self, gpu: int) -> float | None:
        """The driver's counter of energy; None if it has none."""
        device = self._devices[gpu]
        millijoules = self._driver.ask("nvmlDeviceGetTotalEnergyConsumption", device.card) if self._whole[gpu] else None
        return float(millijoules) / 1e3 if isinstance(millijoules, int) else None

    def errors(self, gpu: int) -> dict[str, int]:
        """The counters of errors that it has by name, see `gpu_errors`; XIDs since the first call."""
        device = self._devices[gpu]
        if device.fault is not None:
            return {}
        if self._xids is None:
            self._xids = XidListener(self._driver.library, [each.card for each in self._devices], self._root)
        counters, xids = gpu_errors.nvidia_error_counters(self._driver, device.card), self._xids.counts(gpu)
        if xids is None:
            return counters
        return {**counters, "xid": sum(xids.values()), **{f"xid_{code}": count for code, count in sorted(xids.items())}}


def _open_amd(amdsmi: Any, root: Path) -> _AmdMeters | None:
    if amdsmi is None and not (root / "dev/kfd").exists():
        return None
    try:
        driver = AmdDriver(amdsmi)
    except DriverUnavailable:
        return None
    with suppress(driver.library.AmdSmiException):
        if devices := driver.devices():
            return _AmdMeters(driver, devices)
    driver.close()
    return None


class _AmdMeters:
    """A partition has neither its card's power nor its energy."""

    def __init__(self, driver: AmdDriver, devices: list[AmdDevice]) -> None:
        self._driver, self._handles = driver, [device.handle for device in devices]
        self._whole = [device.partition is None for device in devices]
        self.count = len(devices)
        self.close = driver.close

    def read(self, gpu: int) -> dict[str, float]:
        smi, ask, handle = self._driver.library, self._driver.ask, self._handles[gpu]
        power = ask("power_info", handle) if self._whole[gpu] else None
        # The name of a field changed with ROCm's releases; data-centre cards have no edge sensor.
        heat = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        values = {
            "power": watts(power, "socket_power", "current_socket_power", "average_socket_power"),
            "sm_clock": first_number(ask("clock_info", handle, smi.AmdSmiClkType.GFX), "clk", "cur_clk"),
            "memory_clock": first_number(ask("clock_info", handle, smi.AmdSmiClkType.MEM), "clk", "cur_clk"),
            "temperature": first_number({"celsius": ask("temp_metric", handle, *heat)}, "celsius"),
            "memory_used": vram_bytes(ask("gpu_vram_usage", handle), "vram_used"),
            "utilization": first_number(ask("gpu_activity", handle), "gfx_activity"),
        }
        return _plausible(values, {"utilization": 1e-2})

    def joules(self, gpu: int) -> float | None:
        counter = self._driver.ask("energy_count", self._handles[gpu]) if self._whole[gpu] else None
        ticks, microjoules = first_number(counter, "energy_accumulator", "power"), first_number(counter, "counter_resolution")
        return None if ticks is None or microjoules is None else ticks * microjoules / 1e6

    def errors(self, gpu: int) -> dict[str, int]:
        return gpu_errors.amd_error_counters(self._driver, self._handles[gpu])


Meters = _NvidiaMeters | _AmdMeters
"""The sensors of all GPUs that the trial can use. Missing readings are left out, never guessed."""


def open_meters(nvml: Any = None, amdsmi: Any = None, root: Path = ROOT) -> Meters | None:
    """The machine's meters; None where there is no GPU, no driver or no package for it. To be closed after use.

    `nvml`, `amdsmi`: modules with pynvml's and amdsmi's functions; the installed ones if left out.
    """
    return _open_nvidia(nvml, root) or _open_amd(amdsmi, root)


_PLAUSIBLE = {
    "power": 20_000.0,
    "sm_clock": 20_000.0,
    "memory_clock": 20_000.0,
    "temperature": 200.0,
    "memory_used": 2.0**50,
    "utilization": 1.0,
}
"""The most that a reading can be. Drivers write all bits of a field for "not available", and packages pass it on."""


def _plausible(values: Mapping[str, object], factors: Mapping[str, float]) -> dict[str, float]:
    """The readings that are numbers of a working sensor, in the units of this module; a GPU that is on draws more than 0 W."""
    numbers = {
        name: value * factors.get(name, 1.0)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {name: value for name, value in numbers.items() if 0.0 <= value <= _PLAUSIBLE[name] and (value or name != "power")}
