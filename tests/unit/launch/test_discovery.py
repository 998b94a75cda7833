"""A look at each kind of place: what it shows, and that it disturbs nothing."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from tests.data.result_documents import provider, trial
from tests.fakes.trials import local_provider

from plumbline.kinds.simulation.draw import TrialDraw
from plumbline.launch.local.machine_access import machine_lock
from plumbline.launch.registry import launcher_for
from plumbline.launch.simulated.launcher import simulated_environment

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


def test_this_machine_shows_what_a_trial_on_it_would_find_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    (facts,) = launcher_for(local_provider(machine="looked-at")).discover(local_provider(machine="looked-at"), NOW).nodes
    assert facts["os.kernel"] and facts["cpu.model"] and facts["python.version"]
    assert not [name for name in facts if name.startswith(("limits.", "cpu.usable", "container."))], "a trial is given other ones"
    assert None not in facts.values()


def test_a_trial_that_runs_here_is_left_in_peace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with machine_lock("taken", "gpt-tiny", tmp_path, 0.0, lambda _: None):
        found = launcher_for(local_provider(machine="taken")).discover(local_provider(machine="taken"), NOW)
    assert found.nodes == () and 'trial "gpt-tiny"' in found.notes[0]


def test_a_simulated_provider_shows_what_its_trials_of_that_day_would_find() -> None:
    drift = [{"kind": "driver_change", "since": "2026-11-20", "until": "2026-12-01", "facts": {"driver.version": "575.1"}}]
    where = provider(
        "sim",
        accelerator={"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8},
        launcher={"kind": "simulated", "drift": drift},
    )
    (facts,) = launcher_for(where).discover(where, NOW).nodes
    found = simulated_environment(TrialDraw(trial(where=where, planned_at=NOW))).facts
    assert facts == {name: value for name, value in found.items() if name != "host.node" and value is not None}
    assert facts["driver.version"] == "575.1"
    for day in (19, 1):
        (before,) = launcher_for(where).discover(where, datetime(2026, 11 if day == 19 else 12, day, tzinfo=timezone.utc)).nodes
        assert before["driver.version"] == "570.86.15"


def test_behind_an_url_there_is_nothing_to_see() -> None:
    hosted = provider("hosted", launcher={"kind": "endpoint", "url": "https://api.example.com/v1", "protocol": "openai", "model": "gpt"})
    found = launcher_for(hosted).discover(hosted, NOW)
    assert found.nodes == () and "only a trial" in found.notes[0]
