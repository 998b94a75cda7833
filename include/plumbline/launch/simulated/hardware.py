"""What the accelerators do without noise, and the rows of the hardware probes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from plumbline.declarations import METRICS, Provider, SimulatedLauncher
from plumbline.declarations.criteria import value_in
from plumbline.declarations.simulation import Level
from plumbline.harness.training.peaks import published_peak
from plumbline.launch.simulated.model import Draw
from plumbline.results import MetricRow

# Matrix products reach about four fifths of what is published for the device, copies in its memory nine tenths.
_REACHED, _COPIED = 0.8, 0.9
_MEMORY: tuple[tuple[str, float], ...] = (
    (r"\bB200\b", 8.0e12),
    (r"\bMI300X\b", 5.3e12),
    (r"\bG?H200\b", 4.8e12),
    (r"\bH100 PCIe\b", 2.0e12),
    (r"\bG?H100\b", 3.35e12),
    (r"\bA100\b", 2.0e12),
    (r"\bL40S\b", 8.64e11),
    (r"\bA10\b", 6.0e11),
    (r"\bL4\b", 3.0e11),
)
"""Bytes per second that data sheets give."""
_CORE_FLOPS, _CORE_BYTES = 7.5e10, 7e9
_DISK, _CPU_DISK = 2.5e9, 1e9
_COLLECTIVE = 4.5e11
_LEAD_S, _CPU_LEAD_S = 90.0, 1.0


class UnknownHardware(ValueError):
    """Nobody said how fast the accelerator is; the message says what to declare."""


@dataclass(frozen=True)
class Hardware:
    """One accelerator (of a CPU: all cores together), SI units. `all_reduce` bytes/s on the bus between those of a node."""

    count: int
    matmul: float
    memory: float
    all_reduce: float
    disk: float
    lead_s: float
    gpu: bool


def hardware_of(provider: Provider) -> Hardware:
    """The provider's declared levels, and the usual ones of its accelerator for the rest. UnknownHardware where neither is known."""
    launcher, has = provider.launcher, provider.accelerator
    assert isinstance(launcher, SimulatedLauncher)
    levels = {name: value_in(METRICS[name].unit, text) for name, text in launcher.levels.items()}
    gpu = has.kind != "cpu"
    if gpu:
        device = " ".join((has.product or "").split("-"))
        peak = published_peak(device, "bf16")
        bandwidth = next((rate for pattern, rate in _MEMORY if re.search(pattern, device)), None)
        usual: dict[Level, float | None] = {
            "matmul_tflops": None if peak is None else peak * _REACHED,
            "memory_bandwidth": None if bandwidth is None else bandwidth * _COPIED,
        }
    else:
        usual = {"matmul_tflops": _CORE_FLOPS * has.count, "memory_bandwidth": _CORE_BYTES * has.count}
    known = {name: levels.get(name) or rate for name, rate in usual.items()}
    missing = sorted(name for name, rate in known.items() if rate is None)
    if missing:
        raise UnknownHardware(
            f"nothing is known of the accelerator {has.product or has.kind} of {provider.name}; expected launcher.levels with "
            + ", ".join(
                f'{name}: "{400 if name == "matmul_tflops" else 2}{"TFLOP/s" if name == "matmul_tflops" else "TB/s"}"' for name in missing
            )
        )
    return Hardware(
        count=has.count,
        matmul=known["matmul_tflops"] or 0.0,
        memory=known["memory_bandwidth"] or 0.0,
        all_reduce=levels.get("all_reduce_bus_bandwidth", _COLLECTIVE if gpu else _CORE_BYTES / 4),
        disk=levels.get("disk_write_bandwidth", _DISK if gpu else _CPU_DISK),
        lead_s=levels.get("provisioning_lead_time", _LEAD_S if gpu else _CPU_LEAD_S),
        gpu=gpu,
    )


def probe_rows(draw: Draw, has: Hardware, ranks: int) -> list[MetricRow]:
    """What the probes before the measurement report."""
    rows = [
        draw.row("matmul_tflops", has.matmul, 30, phase="environment"),
        draw.row("memory_bandwidth", has.memory, 30, phase="environment"),
        draw.row("disk_write_bandwidth", has.disk, 3, phase="environment"),
    ]
    return [*rows, draw.row("all_reduce_bus_bandwidth", has.all_reduce, 20, phase="environment")] if ranks > 1 else rows
