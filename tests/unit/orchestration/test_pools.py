"""Simulated trials wait for nobody: a pool of their own, with as many slots as declared, and no time for a machine to run."""

from datetime import timedelta

from tests.data.result_documents import provider

from plumbline.orchestration.defaults import launch_settings
from plumbline.orchestration.pools import slots_of

SIMULATED = provider("sim", launcher={"kind": "simulated", "parallel": 5})


def test_a_simulated_provider_has_a_pool_of_its_own() -> None:
    assert slots_of(
        [
            SIMULATED,
            provider("lab-2core"),
            provider("lab-1core", accelerator={"kind": "cpu", "count": 1}, launcher={"kind": "local", "cpus": [0]}),
        ]
    ) == {
        "plumbline_sim": 5,
        "plumbline_this-machine": 1,
    }


def test_its_task_is_not_given_time_for_a_machine_to_run() -> None:
    settings = launch_settings(SIMULATED)
    assert settings["pool"] == "plumbline_sim"
    assert launch_settings(provider())["execution_timeout"] - settings["execution_timeout"] == timedelta(minutes=10)
