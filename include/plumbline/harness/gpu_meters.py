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

from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from plumbline.harness import gpu_errors
from plumbline.harness.environment.amd import AmdDriver, first_number
from plumbline.harness.environment.nvidia import DriverUnavailable, NvidiaDriver
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
"""Of the signals above; of a reason it is `ratio`."""

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


class Meters(Protocol):
    """The sensors of all GPUs that the trial can use. Missing readings are left out, never guessed."""

    count: int

    def read(self, gpu: int) -> dict[str, float]:
        """The signals above by name."""
        ...

    def joules(self, gpu: int) -> float | None:
        """The driver's counter of energy; None if it has none."""
        ...

    def errors(self, gpu: int) -> dict[str, int]:
        """The counters of errors that it has by name, see `gpu_errors`; XIDs since the first call."""
        ...

    def close(self) -> None: ...


def open_meters(nvml: Any = None, amdsmi: Any = None, root: Path = ROOT) -> Meters | None:
    """The machine's meters; None where there is no GPU, no driver or no package for it. To be closed after use.

    `nvml`, `amdsmi`: modules with pynvml's and amdsmi's functions; the installed ones if left out.
    """
    return _open_nvidia(nvml, root) or _open_amd(amdsmi, root)


def _open_nvidia(nvml: Any, root: Path) -> _NvidiaMeters | None:
    try:
        driver = NvidiaDriver(nvml)
    except DriverUnavailable:
        return None
    with suppress(driver.library.NVMLError):
        if handles := driver.handles():
            return _NvidiaMeters(driver, handles, root)
    driver.close()
    return None


class _NvidiaMeters:
    def __init__(self, driver: NvidiaDriver, handles: list[Any], root: Path) -> None:
        self._driver, self._handles, self._root = driver, handles, root
        self.count = len(handles)
        self._xids: XidListener | None = None

    def close(self) -> None:
        if self._xids is not None:
            self._xids.close()
        self._driver.close()

    def read(self, gpu: int) -> dict[str, float]:
        nvml, ask, handle = self._driver.library, self._driver.ask, self._handles[gpu]
        power, memory, busy = (ask(f"nvmlDeviceGet{name}", handle) for name in ("PowerUsage", "MemoryInfo", "UtilizationRates"))
        values = {
            "power": None if power is None else power / 1e3,
            "sm_clock": ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            "memory_clock": ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            "temperature": ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            "memory_used": None if memory is None else memory.used,
            "utilization": None if busy is None else busy.gpu / 100,
        }
        # The older name of "clocks event reasons": drivers before 535 know no other, and later ones know it too.
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        active = {} if bits is None else {name: float(bool(bits & bit)) for name, bit in _BITS.items()}
        if active:
            active["throttled"] = max(active[name] for name in HARMFUL_THROTTLING)
        return {name: float(value) for name, value in values.items() if value is not None} | active

    def joules(self, gpu: int) -> float | None:
        millijoules = self._driver.ask("nvmlDeviceGetTotalEnergyConsumption", self._handles[gpu])
        return None if millijoules is None else float(millijoules) / 1e3

    def errors(self, gpu: int) -> dict[str, int]:
        if self._xids is None:
            self._xids = XidListener(self._driver.library, self._handles, self._root)
        counters, xids = gpu_errors.nvidia_error_counters(self._driver, self._handles[gpu]), self._xids.counts(gpu)
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
        if handles := driver.handles():
            return _AmdMeters(driver, handles)
    driver.close()
    return None


class _AmdMeters:
    def __init__(self, driver: AmdDriver, handles: list[Any]) -> None:
        self._driver, self._handles = driver, handles
        self.count = len(handles)
        self.close = driver.close

    def read(self, gpu: int) -> dict[str, float]:
        smi, ask, handle = self._driver.library, self._driver.ask, self._handles[gpu]
        power, used = ask("power_info", handle), first_number(ask("gpu_vram_usage", handle), "vram_used")
        busy = first_number(ask("gpu_activity", handle), "gfx_activity")
        # The name of a field changed with ROCm's releases; data-centre cards have no edge sensor.
        heat = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        values = {
            "power": first_number(power, "socket_power", "current_socket_power", "average_socket_power"),
            "sm_clock": first_number(ask("clock_info", handle, smi.AmdSmiClkType.GFX), "clk", "cur_clk"),
            "memory_clock": first_number(ask("clock_info", handle, smi.AmdSmiClkType.MEM), "clk", "cur_clk"),
            "temperature": first_number({"celsius": ask("temp_metric", handle, *heat)}, "celsius"),
            "memory_used": None if used is None else used * 2**20,
            "utilization": None if busy is None else busy / 100,
        }
        return {name: value for name, value in values.items() if value is not None}

    def joules(self, gpu: int) -> float | None:
        counter = self._driver.ask("energy_count", self._handles[gpu])
        ticks, microjoules = first_number(counter, "energy_accumulator", "power"), first_number(counter, "counter_resolution")
        return None if ticks is None or microjoules is None else ticks * microjoules / 1e6

    def errors(self, gpu: int) -> dict[str, int]:
        return gpu_errors.amd_error_counters(self._driver, self._handles[gpu])
