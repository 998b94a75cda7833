"""What GPUs' own sensors say at one moment: NVIDIA's by NVML, AMD's by AMD SMI, in the same words and units.

power          W
sm_clock       MHz, of the multiprocessors (AMD: of the shader engines)
memory_clock   MHz
temperature    °C, of the die
memory_used    bytes, by all processes
utilization    share of the driver's own last window in which a kernel ran
throttled      1 while the GPU runs below its clocks because of heat or the power supply; `throttle_<reason>` says why. At its power limit
               every GPU lowers its clocks under full load: `throttle_power_limit` is told, and is no fault of the machine's
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from plumbline.harness import gpu_errors
from plumbline.harness.environment.amd import first_number
from plumbline.harness.environment.amd import visible_handles as amd_handles
from plumbline.harness.environment.cpu import ROOT
from plumbline.harness.environment.nvidia import visible_handles
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
"""NVML's clocks event reasons. Left out: idle, clocks that somebody set (a fact of the environment), sync boost, displays."""
HARMFUL_THROTTLING = tuple(name for name in THROTTLE_REASONS if name != "throttle_power_limit")


class Meters(Protocol):
    """The sensors of all GPUs that the trial can use. What a device or driver does not tell is left out, never guessed."""

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
        library = nvml or importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
    except library.NVMLError:
        return None
    try:
        found = visible_handles(library)
    except library.NVMLError:
        found = []
    if not found:
        library.nvmlShutdown()
        return None
    return _NvidiaMeters(library, found, root)


class _NvidiaMeters:
    def __init__(self, nvml: Any, found: list[Any], root: Path) -> None:
        self._nvml, self._handles = nvml, found
        self.count = len(found)
        self._root = root
        self._xids: XidListener | None = None

    def close(self) -> None:
        if self._xids is not None:
            self._xids.close()
        self._nvml.nvmlShutdown()

    def read(self, gpu: int) -> dict[str, float]:
        nvml, handle = self._nvml, self._handles[gpu]
        power, heat = self._asked(nvml.nvmlDeviceGetPowerUsage, handle), nvml.NVML_TEMPERATURE_GPU
        memory, busy = self._asked(nvml.nvmlDeviceGetMemoryInfo, handle), self._asked(nvml.nvmlDeviceGetUtilizationRates, handle)
        found = {
            "power": None if power is None else power / 1e3,
            "sm_clock": self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "memory_clock": self._asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "temperature": self._asked(nvml.nvmlDeviceGetTemperature, handle, heat),
            "memory_used": None if memory is None else memory.used,
            "utilization": None if busy is None else busy.gpu / 100,
        }
        return {name: float(value) for name, value in found.items() if value is not None} | self._throttling(handle)

    def _throttling(self, handle: Any) -> dict[str, float]:
        # The older name of "clocks event reasons": drivers before 535 know no other, and later ones know it too.
        bits = self._asked(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        if bits is None:
            return {}
        active = {name: float(bool(bits & bit)) for name, bit in _BITS.items()}
        return {**active, "throttled": max(active[name] for name in HARMFUL_THROTTLING)}

    def joules(self, gpu: int) -> float | None:
        told = self._asked(self._nvml.nvmlDeviceGetTotalEnergyConsumption, self._handles[gpu])
        return None if told is None else float(told) / 1e3

    def errors(self, gpu: int) -> dict[str, int]:
        if self._xids is None:
            self._xids = XidListener(self._nvml, self._handles, self._root)
        found, xids = gpu_errors.nvidia_error_counters(self._nvml, self._handles[gpu]), self._xids.counts(gpu)
        if xids is None:
            return found
        return {**found, "xid": sum(xids.values()), **{f"xid_{code}": count for code, count in sorted(xids.items())}}

    def _asked(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None  # not every device and driver answers everything


def _open_amd(amdsmi: Any, root: Path) -> _AmdMeters | None:
    if amdsmi is None and not (root / "dev/kfd").exists():
        return None
    try:
        library = amdsmi or importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError):
        return None  # the package loads ROCm's own library when it is imported
    try:
        library.amdsmi_init()
    except library.AmdSmiException:
        return None
    try:
        found = amd_handles(library)
    except library.AmdSmiException:
        found = []
    if not found:
        library.amdsmi_shut_down()
        return None
    return _AmdMeters(library, found)


class _AmdMeters:
    def __init__(self, amdsmi: Any, found: list[Any]) -> None:
        self._amdsmi, self._handles = amdsmi, found
        self.count = len(found)
        self.close = amdsmi.amdsmi_shut_down

    def read(self, gpu: int) -> dict[str, float]:
        smi, handle = self._amdsmi, self._handles[gpu]
        power = self._asked(smi.amdsmi_get_power_info, handle)
        used = first_number(self._asked(smi.amdsmi_get_gpu_vram_usage, handle), "vram_used")
        busy = first_number(self._asked(smi.amdsmi_get_gpu_activity, handle), "gfx_activity")
        # The name of a field changed with ROCm's releases; data-centre cards have no edge sensor.
        heat = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        found = {
            "power": first_number(power, "socket_power", "current_socket_power", "average_socket_power"),
            "sm_clock": first_number(self._asked(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX), "clk", "cur_clk"),
            "memory_clock": first_number(self._asked(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.MEM), "clk", "cur_clk"),
            "temperature": first_number({"celsius": self._asked(smi.amdsmi_get_temp_metric, handle, *heat)}, "celsius"),
            "memory_used": None if used is None else used * 2**20,
            "utilization": None if busy is None else busy / 100,
        }
        return {name: value for name, value in found.items() if value is not None}

    def joules(self, gpu: int) -> float | None:
        told = self._asked(self._amdsmi.amdsmi_get_energy_count, self._handles[gpu])
        ticks, microjoules = first_number(told, "energy_accumulator", "power"), first_number(told, "counter_resolution")
        return None if ticks is None or microjoules is None else ticks * microjoules / 1e6

    def errors(self, gpu: int) -> dict[str, int]:
        return gpu_errors.amd_error_counters(self._amdsmi, self._handles[gpu])

    def _asked(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except self._amdsmi.AmdSmiException:
            return None
