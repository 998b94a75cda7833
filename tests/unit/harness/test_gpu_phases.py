from __future__ import annotations

import os
import time

import pytest
from tests.data.result_documents import VALIDITY
from tests.fakes.nvml import Card, Nvml

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.gpu_monitor import GpuPhaseMonitor, MonitoredGpus

CORES = sorted(os.sched_getaffinity(0))
POWER_LIMIT, HARDWARE_HEAT, BRAKE = 0x04, 0x40, 0x80


def test_each_phase_has_its_own_samples_and_its_own_energy() -> None:
    nvml = Nvml(card := Card(watts=100.0))
    with ContentionMonitor(CORES, interval_s=0.02, gpus=GpuPhaseMonitor(0.02, nvml)) as watch:
        with watch.phase("warmup"):
            time.sleep(0.1)
        card.watts = 600.0
        with watch.phase("steady"):
            time.sleep(0.1)
    power = {row.phase: row for row in watch.telemetry() if row.signal == "gpu0_power"}
    assert {phase: (row.min, row.p95, row.max) for phase, row in power.items()} == {"warmup": (100,) * 3, "steady": (600,) * 3}
    (steady,) = watch.gpu_rows()
    assert (steady.metric, steady.phase, steady.statistic, steady.n) == ("gpu_power", "steady", "mean", power["steady"].n)
    assert steady.value == pytest.approx(600, rel=0.02)
    assert nvml.opened == 0


def test_a_phase_within_another_takes_its_samples_and_one_that_comes_again_goes_on() -> None:
    card = Card(watts=100.0, counts=False)
    with ContentionMonitor(CORES, interval_s=0.02, gpus=GpuPhaseMonitor(60.0, Nvml(card))) as watch:
        with watch.phase("steady"):
            card.watts = 600.0
            with watch.phase("fault"):
                time.sleep(0.01)
            card.watts = 200.0
        with watch.phase("fault"):
            card.watts = 300.0
    power = {row.phase: row for row in watch.telemetry() if row.signal == "gpu0_power"}
    # Each stretch begins and ends with a sample, at the power of that moment.
    assert (power["steady"].n, power["steady"].min, power["steady"].max) == (4, 100.0, 600.0)
    assert (power["fault"].n, power["fault"].min, power["fault"].max) == (4, 200.0, 600.0)


def test_heat_and_a_power_brake_are_told_with_their_names() -> None:
    with (
        ContentionMonitor(CORES, gpus=GpuPhaseMonitor(0.02, Nvml(Card(), Card(reasons=HARDWARE_HEAT | BRAKE)))) as watch,
        watch.phase("steady"),
    ):
        time.sleep(0.05)
    (told,) = [item for item in watch.judgements(VALIDITY) if item.reason.code == "throttled"]
    assert told.level == "degraded"
    assert all(words in told.reason.detail for words in ("GPU 1", "temperature limit", "power brake", "100%"))
    seen = {row.signal for row in watch.telemetry() if "throttle" in row.signal}
    assert seen == {"gpu0_throttled", "gpu1_throttled", "gpu1_throttle_hardware_temperature", "gpu1_throttle_power_brake"}


def test_a_gpu_at_its_power_limit_is_working_as_it_should() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(0.02, Nvml(Card(reasons=POWER_LIMIT)))) as watch, watch.phase("steady"):
        time.sleep(0.05)
    assert "throttled" not in [item.reason.code for item in watch.judgements(VALIDITY)]
    assert {row.signal: row.mean for row in watch.telemetry()}["gpu0_throttle_power_limit"] == 1.0


def test_throttling_outside_of_the_steady_phase_is_no_verdict() -> None:
    card = Card(reasons=HARDWARE_HEAT)
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(card))) as watch:
        with watch.phase("warmup"):
            pass
        card.reasons = 0
        with watch.phase("steady"):
            pass
    assert "throttled" not in [item.reason.code for item in watch.judgements(VALIDITY)]


def test_without_a_gpu_nothing_is_claimed() -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(0.02, Nvml(refuses="Driver Not Loaded"))) as watch, watch.phase("steady"):
        pass
    assert watch.gpu_rows() == []
    assert not [row for row in watch.telemetry() if row.signal.startswith("gpu")]


def test_the_memory_of_a_program_that_reports_none_is_what_a_gpu_holds_beyond_before() -> None:
    cards = Card(used=1e9), Card(used=2e9)
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(*cards))) as watch:
        with watch.phase("environment"):
            cards[0].used = 70e9  # a probe's
        cards[0].used = 1.5e9
        with watch.phase("cold_start"):
            cards[0].used, cards[1].used = 11.5e9, 4e9
        with watch.phase("steady"):
            cards[0].used = 5e9
    (peak,) = watch.gpus.memory_rows()
    assert (peak.metric, peak.statistic, peak.value, peak.n) == ("training_peak_memory", "max", 10e9, 2)
    assert watch.gpus.reading().peak_memory == 10e9
    watch.gpus.add_nodes({1: None, 2: MonitoredGpus(8, {}, (), (), 12e9)})
    assert [row.value for row in watch.gpus.memory_rows()] == [12e9]


@pytest.mark.parametrize("cards", [(), (Card(tells=False),), (Card(used=0.0),)])
def test_no_memory_is_claimed_where_none_is_used_or_reported(cards: tuple[Card, ...]) -> None:
    with ContentionMonitor(CORES, gpus=GpuPhaseMonitor(60.0, Nvml(*cards))) as watch, watch.phase("steady"):
        pass
    assert watch.gpus.memory_rows() == []
