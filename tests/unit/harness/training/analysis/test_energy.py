from __future__ import annotations

from plumbline.harness.training.analysis.performance import energy_rows
from plumbline.results import metric_row

POWER = [metric_row("gpu_power", 1200.0, 50)]
SPEED = [metric_row("step_time", 0.5, 100), metric_row("tokens_per_second", 40_000.0, 100)]


def test_power_over_the_steady_speed_is_the_energy_of_a_token() -> None:
    power, energy = energy_rows(SPEED, POWER)
    assert power == POWER[0]
    assert (energy.metric, energy.phase, energy.value, energy.n, energy.unit) == ("energy_per_trained_token", "steady", 0.03, 50, "J")


def test_without_meters_or_tokens_nothing_is_claimed() -> None:
    assert energy_rows(SPEED, []) == []
    assert energy_rows(SPEED[:1], POWER) == POWER
    assert energy_rows([*SPEED[:1], metric_row("tokens_per_second", None, 0)], POWER) == POWER


def test_power_that_is_missing_makes_the_energy_missing_with_its_reason() -> None:
    missing = metric_row("gpu_power", None, 0, statistic="mean", reason="node 1 reads no GPUs")
    power, energy = energy_rows(SPEED, [missing])
    assert power == missing
    assert (energy.value, energy.n, energy.reason) == (None, 0, missing.reason)
