from __future__ import annotations

import time

import pytest
from tests.fakes.nvml import Card, Nvml

from plumbline.harness.gpu_meters import SIGNAL_UNITS
from plumbline.harness.gpu_monitor import GpuPhaseMonitor, GpuSamples


def watched(nvml: Nvml, every_s: float = 60.0) -> tuple[GpuSamples, float]:
    """What was seen in at least 0.1 s, and how many seconds it were at most."""
    with GpuPhaseMonitor(every_s, nvml) as monitor:
        began = time.monotonic()
        monitor.change(None, "steady")
        time.sleep(0.1)
        monitor.change("steady", None)
        seconds = time.monotonic() - began
    return monitor.samples("steady"), seconds


def test_counters_of_all_gpus_tell_the_energy() -> None:
    seen, seconds = watched(nvml := Nvml(Card(watts=300.0), Card(watts=100.0)))
    assert seen.energy_j is not None and 0.1 * 400 * 0.99 <= seen.energy_j <= seconds * 400 * 1.01
    assert seen.window.watts is not None and seen.window.watts == pytest.approx(400, rel=0.02)
    assert nvml.opened == 0, "what is opened is closed"


def test_without_a_counter_the_samples_stand_in() -> None:
    seen, seconds = watched(Nvml(Card(watts=250.0, counts=False)))
    assert seen.window.watts == pytest.approx(250.0)
    assert seen.energy_j is not None and 25.0 <= seen.energy_j <= seconds * 250.0


def test_signals_of_each_gpu() -> None:
    seen, _ = watched(Nvml(Card(watts=300.0), Card(watts=100.0)), every_s=0.01)
    rows = {row.signal: row for row in seen.telemetry("steady")}
    assert set(rows) == {f"gpu{i}_{signal}" for i in (0, 1) for signal in SIGNAL_UNITS} | {"gpu_watch_overhead"}
    power = rows["gpu1_power"]
    assert (power.phase, power.unit, power.mean, power.min, power.p95, power.max) == ("steady", "W", 100.0, 100.0, 100.0, 100.0)
    assert power.n == seen.samples >= 2
    told = {signal: (rows[f"gpu0_{signal}"].mean, rows[f"gpu0_{signal}"].unit) for signal in SIGNAL_UNITS}
    assert told == {
        "power": (300.0, "W"),
        "sm_clock": (1980, "MHz"),
        "memory_clock": (3201, "MHz"),
        "temperature": (55, "°C"),
        "memory_used": (90e9, "bytes"),
        "utilization": (pytest.approx(0.97), "ratio"),
        "throttled": (0.0, "ratio"),
    }
    assert 0.0 < rows["gpu_watch_overhead"].mean <= 1.0


def test_only_visible_gpus_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    seen, _ = watched(Nvml(Card(watts=300.0), Card(watts=100.0)))
    assert seen.window.watts == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("nvml", [Nvml(), Nvml(Card(), refuses="Driver Not Loaded")])
def test_where_there_is_none_nothing_is_claimed(nvml: Nvml) -> None:
    seen, _ = watched(nvml)
    assert (seen.energy_j, seen.window.watts, seen.samples, seen.telemetry("steady")) == (None, None, 0, [])
    assert nvml.opened == 0


def test_one_that_tells_nothing_leaves_the_sum_unknown() -> None:
    seen, _ = watched(Nvml(Card(), Card(tells=False)))
    assert seen.energy_j is None and seen.window.watts is None
    assert {row.signal for row in seen.telemetry("steady")} == {f"gpu0_{signal}" for signal in SIGNAL_UNITS}
