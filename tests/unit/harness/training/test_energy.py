from __future__ import annotations

from plumbline.harness.training.energy import energy_rows
from plumbline.results import row

POWER = [row("gpu_power", 1200.0, 50)]
SPEED = [row("step_time", 0.5, 100), row("tokens_per_second", 40_000.0, 100)]


def test_power_over_the_steady_speed_is_the_energy_of_a_token() -> None:
    power, energy = energy_rows(SPEED, POWER, nodes=1)
    assert power == POWER[0]
    assert (energy.metric, energy.phase, energy.value, energy.n, energy.unit) == ("energy_per_trained_token", "steady", 0.03, 50, "J")


def test_without_meters_tokens_or_a_view_of_all_nodes_nothing_is_claimed() -> None:
    assert energy_rows(SPEED, [], nodes=1) == []
    assert energy_rows(SPEED[:1], POWER, nodes=1) == POWER
    assert energy_rows([*SPEED[:1], row("tokens_per_second", None, 0)], POWER, nodes=1) == POWER
    assert energy_rows(SPEED, POWER, nodes=2) == POWER
