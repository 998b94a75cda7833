"""The team server past one machine: each component of CeleryExecutor's installation is killed at each stage of a fleet's campaign."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

import fleet_kills
from fleet_campaign import Size, World, world
from fleet_celery import CeleryExecutor, may_mount

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on the PATH"),
]


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """Two providers with two workloads each; one world for all kills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PLUMBLINE_HOME", raising=False)
        size = Size(providers=2, workloads=2, repeats=1, lasts_s=10.0, parallel=1)
        with world(CeleryExecutor(slots=8), size, fleet_kills.SOONER) as made:
            yield made


def kill(fleet: World, component: str) -> None:
    with fleet.server.client() as client:
        done = fleet_kills.kill(fleet, client, component)
    assert done.at, "no stage was met"
    assert done.clean, f"{done.account}; {done.orphans}"


@pytest.mark.full
@pytest.mark.fault(
    "one of two schedulers, triggerers or API servers is killed at each stage (Celery)",
    ends="valid",
    keeps="each trial, once; no pod, no process",
)
@pytest.mark.parametrize("component", ["scheduler", "triggerer", "api-server", "dag-processor"])
def test_a_killed_instance_costs_no_trial(fleet: World, component: str) -> None:
    kill(fleet, component)


@pytest.mark.full
@pytest.mark.fault("a worker is killed with its tasks at each stage (Celery)", ends="valid", keeps="each trial, once; no pod, no process")
def test_a_killed_worker_costs_no_trial(fleet: World) -> None:
    kill(fleet, "worker")


@pytest.mark.full
@pytest.mark.fault("all workers are away longer than Airflow's own patience", ends="valid", keeps="each trial, once; no pod, no process")
def test_workers_that_are_away_cost_no_trial(fleet: World) -> None:
    kill(fleet, "workers")


@pytest.mark.full
@pytest.mark.fault("Redis is killed and loses all queued tasks at each stage", ends="valid", keeps="each trial, once; no pod, no process")
def test_a_redis_that_loses_everything_costs_no_trial(fleet: World) -> None:
    kill(fleet, "redis")


@pytest.mark.full
@pytest.mark.fault("PostgreSQL crashes and starts again at each stage (Celery)", ends="valid", keeps="each trial, once; no pod, no process")
def test_a_crash_of_both_databases_costs_no_trial(fleet: World) -> None:
    kill(fleet, "postgresql")


@pytest.mark.full
@pytest.mark.fault("the disk of one worker is full at each stage", ends="valid", keeps="each trial, once; no pod, no process")
def test_a_workers_full_disk_costs_no_trial(fleet: World, tmp_path: Path) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this machine does not allow mounts in a namespace of its own")
    kill(fleet, "disk")
