"""Simulated trials wait for nobody: a pool of their own, with as many slots as declared, and no time for a machine to run."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from tests.data.result_documents import provider
from tests.fakes.fake_airflow_api import fake_airflow
from tests.fakes.trials import CONFIG, cluster_provider

from plumbline.airflow.defaults import launch_settings
from plumbline.embedded.client import AirflowClient
from plumbline.embedded.server import PoolKeeper
from plumbline.workflows.plan import pool_slots

SIMULATED = provider("sim", launcher={"kind": "simulated", "parallel": 5})


def test_a_simulated_provider_has_a_pool_of_its_own() -> None:
    assert pool_slots(
        [
            SIMULATED,
            provider("lab-2core"),
            provider("lab-1core", accelerator={"kind": "cpu", "count": 1}, launcher={"kind": "local", "cpus": [0]}),
        ]
    ) == {
        "plumbline_sim": 5,
        "plumbline_this-machine": 1,
    }


@pytest.mark.fault("a provider is enabled while `plumbline up` runs", ends="its pool is made", keeps="pools that are there")
def test_pools_follow_the_declarations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Path(shutil.copytree(CONFIG, tmp_path / "config"))
    monkeypatch.setenv("PLUMBLINE_CONFIG", str(config))
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    keeper, new = PoolKeeper(), config / "providers" / "cluster-a.yaml"
    with fake_airflow() as airflow, AirflowClient(airflow.address, "admin", "right") as client:
        assert keeper.refresh(client) == [] and airflow.pools == {}, "nothing was edited"
        new.write_text("name: 3")
        assert keeper.refresh(client) == [], "half written: looked at again"
        new.write_text(yaml.safe_dump(json.loads(cluster_provider(parallel=3).model_dump_json(exclude_none=True))))
        assert "plumbline_cluster-a" in keeper.refresh(client) and airflow.pools["plumbline_cluster-a"]["slots"] == 3
        assert keeper.refresh(client) == []


def test_its_task_is_not_given_time_for_a_machine_to_run() -> None:
    settings = launch_settings(SIMULATED)
    assert settings["pool"] == "plumbline_sim"
    assert launch_settings(provider())["execution_timeout"] - settings["execution_timeout"] == timedelta(minutes=10)
