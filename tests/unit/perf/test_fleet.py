"""The pieces of perf/scale_fleet.py that need no Airflow."""

from __future__ import annotations

import importlib
import socket
import sys
import threading
from pathlib import Path

import pytest
from tests.fakes.postgres_tcp import free_port

sys.path.insert(0, str(Path(__file__).parents[3] / "perf"))

from fleet_balancer import Balancer
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
