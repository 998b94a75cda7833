from __future__ import annotations

import time

import pytest
from tests.fakes.nvml import Card, Nvml
from tests.unit.harness.inference.analysis.test_metrics import fail, log_of

from plumbline.harness.gpu_monitor import GpuPhaseMonitor, GpuSamples
from plumbline.harness.inference.analysis.metrics import energy_rows


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> GpuSamples:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with GpuPhaseMonitor(1.0, Nvml(Card(watts=300.0))) as watch:
        watch.change(None, "steady")
        time.sleep(0.05)
        watch.change("steady", None)
    return watch.samples("steady")


def test_the_phases_energy_over_every_token_of_a_finished_request(gpus: GpuSamples) -> None:
    log = log_of(n=100, tokens=5)
    log.received[0] = 0  # it failed before its first token
    power, energy = energy_rows(fail(log, 0, 1), gpus)
    assert (power.metric, power.phase, power.statistic, power.n) == ("gpu_power", "steady", "mean", gpus.samples)
    assert power.value == pytest.approx(300, rel=0.05)
    assert gpus.energy_j is not None
    assert (energy.metric, energy.value, energy.n) == ("energy_per_output_token", pytest.approx(gpus.energy_j / 490), 490)


def test_no_token_has_no_energy_and_no_gpu_no_row(gpus: GpuSamples) -> None:
    log = log_of(n=2)
    log.received[:] = 0
    assert [row.metric for row in energy_rows(log, gpus)] == ["gpu_power"]
    assert energy_rows(log_of(), GpuSamples()) == []
