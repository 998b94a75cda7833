from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.fakes.nvml import Card, Nvml

from plumbline.harness.gpu_meters import Meters, open_meters
from plumbline.harness.selfcheck import torch_checks
from plumbline.harness.selfcheck.torch_checks import Spin, energy_counter, event_timer, integrate_power

CLOCK_HZ = 1980e6  # of the fake's multiprocessors


class Miscounting(Nvml):
    def nvmlDeviceGetTotalEnergyConsumption(self, card: Card) -> int:
        return round(super().nvmlDeviceGetTotalEnergyConsumption(card) * 1.3)


def meters(nvml: Nvml) -> Meters:
    found = open_meters(nvml)
    assert found is not None
    return found


def spinning(wrong: float = 1.0) -> Spin:
    """A device that takes as long as its clock says, by events that are off by a factor."""

    def spin(cycles: int, meanwhile: Callable[[], None]) -> float:
        meanwhile()
        return wrong * cycles / CLOCK_HZ

    return spin


def test_events_that_agree_with_the_clock_pass() -> None:
    nvml = Nvml(Card())
    line = event_timer(spinning(), meters(nvml))
    assert (line.status, line.of) == ("pass", "gpu")
    assert line.expected == pytest.approx(1.0)
    assert nvml.opened == 0


def test_a_wrong_event_timer_fails() -> None:
    assert event_timer(spinning(1.1), meters(Nvml(Card()))).status == "fail"


def test_a_gpu_that_does_not_tell_its_clock_cannot_be_checked() -> None:
    assert event_timer(spinning(), meters(Nvml(Card(tells=False)))).status == "not_applicable"


def energy_of(nvml: Nvml) -> str:
    return energy_counter(lambda: time.sleep(0.001), meters(nvml), warm_s=0.01, s=0.05).status


def test_a_counter_that_agrees_with_the_power_passes() -> None:
    assert energy_of(Nvml(Card(watts=500.0))) == "pass"


def test_a_counter_that_counts_a_third_too_much_fails() -> None:
    assert energy_of(Miscounting(Card(watts=500.0))) == "fail"


def test_without_a_counter_or_its_power_there_is_nothing_to_compare() -> None:
    assert energy_of(Nvml(Card(counts=False))) == "not_applicable"
    assert energy_of(Nvml(Card(tells=False))) == "not_applicable"


def test_power_is_integrated_by_trapezoids() -> None:
    assert integrate_power([(0.0, 100.0), (1.0, 300.0), (3.0, 300.0)]) == 800.0


def test_without_a_driver_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_checks, "open_meters", lambda: None)
    assert energy_counter().status == "not_applicable"
    assert event_timer(spinning()).status == "not_applicable"
