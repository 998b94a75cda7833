"""The pieces of perf/scale_fleet.py that need no Airflow."""

from __future__ import annotations

import importlib
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.data.result_documents import document, trial
from tests.fakes.postgres_tcp import free_port

from plumbline.archive import open_archive
from plumbline.embedded.client import DagRun
from plumbline.results import ResultStore

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from fleet_balancer import Balancer
from fleet_campaign import Campaign, account
from fleet_services import chart_settings, kind_of


@pytest.mark.parametrize(
    "executor", ["airflow.providers.celery.executors.celery_executor", "airflow.providers.cncf.kubernetes.executors.kubernetes_executor"]
)
@pytest.mark.fault(
    "a package that an executor of the Helm values needs is locked in a wrong version", ends="a red test", keeps="the team server"
)
def test_the_locked_packages_load_the_executors(executor: str) -> None:
    importlib.import_module(executor)


def answering(port: int) -> socket.socket:
    """A server that answers every connection with its port."""
    server = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.recv(10)
            connection.sendall(str(port).encode())
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return server


def asked(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"?")
        return connection.recv(100).decode()


def test_each_connection_goes_to_the_next_backend_that_accepts_it() -> None:
    ports = [free_port(), free_port()]
    servers = [answering(port) for port in ports]
    balancer = Balancer(ports)
    try:
        assert sorted(asked(balancer.port) for _ in range(4)) == sorted([*map(str, ports)] * 2)
        servers[0].shutdown(socket.SHUT_RDWR)
        servers[0].close()
        assert [balancer.listens(number) for number in (0, 1)] == [False, True]
        assert {asked(balancer.port) for _ in range(4)} == {str(ports[1])}
    finally:
        balancer.stop()
        servers[1].close()


def test_the_settings_are_those_of_the_helm_values() -> None:
    found = chart_settings()
    assert found["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] == "120"
    assert not {"AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__API__BASE_URL"} & found.keys()


def test_an_instance_is_named_after_its_service() -> None:
    assert [kind_of(name) for name in ("scheduler-2", "api-server-1", "dag-processor")] == ["scheduler", "api-server", "dag-processor"]


def test_the_account_names_what_is_lost_doubled_or_left(tmp_path: Path) -> None:
    url, store = f"sqlite:///{tmp_path / 'archive.db'}", ResultStore((tmp_path / "results").as_uri())
    here = SimpleNamespace(server=SimpleNamespace(archive_url=url), store=store, clusters=SimpleNamespace(leftovers=lambda: ["pods/left"]))
    trials = [trial(repeat=number) for number in (1, 2, 3)]
    campaign = Campaign(
        "2025-11",
        [DagRun(dag_id="benchmark_a", run_id="r", state="success", run_type="manual", conf={})],
        {each.trial_id: each for each in trials},
    )

    def measured(number: int, attempt: int = 1) -> None:
        made = document(trial(repeat=number, attempt=attempt))
        store.put_trial(made.trial)
        with open_archive(url) as archive:
            archive.record(made, uri=store.url)

    measured(1)
    measured(1, attempt=2)
    measured(2)
    store.put_trial(trials[2])  # launched, never recorded
    found = account(here, campaign)
    assert (found.planned, found.lost, found.doubled) == (3, [trials[2].trial_id], [trials[0].trial_id])
    assert (found.strange, found.pods, found.failed_runs) == ([f"{trials[2].trial_id}#1"], ["pods/left"], [])
    assert not found.clean
    here.clusters.leftovers = list
    campaign.planned = {trials[1].trial_id: trials[1]}
    with open_archive(url) as archive:
        assert {row.trial_id for row in archive.trials()} == {each.trial_id for each in trials[:2]}
    campaign.campaign_id = "another"
    assert account(here, campaign).lost == [trials[1].trial_id]
