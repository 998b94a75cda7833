"""The team server's compose file: read by real compose implementations, then its service graph run as processes on a real PostgreSQL.

One graph serves all checks, because starting one costs more than everything else here.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.data.result_documents import document, trial
from tests.fakes.compose_processes import ROOT, Processes, Refused, implementations, read_settings, resolve, write_settings
from tests.fakes.postgres_tcp import TcpPostgres, free_port
from tests.fakes.quick_python import search_path

from plumbline.archive import open_archive
from plumbline.embedded.client import AirflowClient

pytestmark = [pytest.mark.timeout(900)]

LASTING = ("api-server", "scheduler", "dag-processor", "triggerer")
DAG = """
from datetime import timedelta

from airflow.providers.standard.sensors.time_delta import WaitSensor
from airflow.sdk import dag, task

@dag(schedule=None, start_date=None)
def server_probe():
    # In a pool of ours, which exists only if `init` made it. Long enough that the scheduler has noted the deferral (docs/scale.md, a race).
    waited = WaitSensor(task_id="wait", time_to_wait=timedelta(seconds=12), deferrable=True, pool="plumbline_this-machine", retries=0)

    @task(retries=0)
    def archive():
        from plumbline.archive import open_archive
        with open_archive() as found:
            return found.engine.dialect.name

    waited >> archive()

server_probe()
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Not pytest's own temporary folder: the path of PostgreSQL's socket may be 107 characters long.
    with tempfile.TemporaryDirectory(prefix="plumbline-server-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def settings(folder: Path) -> Path:
    file = write_settings(folder, "--store")
    # As one of 64 begins.
    file.write_text(file.read_text().replace("PLUMBLINE_ADMIN_PASSWORD=", "PLUMBLINE_ADMIN_PASSWORD=-"))
    return file


def compose_commands() -> list[str]:
    with tempfile.TemporaryDirectory() as path:
        return list(implementations(Path(path)))


@pytest.fixture(scope="module", params=compose_commands())
def command(request: pytest.FixtureRequest, folder: Path) -> list[str]:
    """Each compose implementation of this machine."""
    return implementations(folder)[request.param]


@pytest.fixture(scope="module")
def resolved(folder: Path, settings: Path) -> dict[str, Any]:
    return resolve(implementations(folder)["podman-compose"], folder, settings)


def test_a_compose_implementation_reads_the_whole_file(command: list[str], folder: Path, settings: Path) -> None:
    found = resolve(command, folder, settings)
    assert (
        set(LASTING) | {"postgres", "init", "store", "store-bucket", "minio", "bucket", "demo"}
        >= set(found["services"])
        >= {*LASTING, "postgres", "init"}
    )
    secrets = [v for k, v in read_settings(settings).items() if k.endswith(("PASSWORD", "SECRET", "KEY"))]
    assert all(s in json.dumps(found) for s in secrets if s != read_settings(settings)["AWS_SECRET_ACCESS_KEY"])


OLD_STORE = {
    "COMPOSE_PROFILES": "minio",
    "PLUMBLINE_MINIO_PASSWORD": "0123456789abcdef",
    "PLUMBLINE_MINIO_IMAGE": f"minio/minio@sha256:{'cd' * 32}",
    "AWS_ENDPOINT_URL": "http://minio:9000",
}
"""What a server of before has in its .env."""


@pytest.mark.fault("the image of the S3 server is gone, and no profile needs it", ends="the server's file reads", keeps="the server")
@pytest.mark.parametrize("more", [{}, OLD_STORE], ids=["no store", "MinIO's profile of before"])
def test_a_server_without_the_stores_profile_needs_no_image_of_it(
    command: list[str], tmp_path_factory: pytest.TempPathFactory, folder: Path, more: dict[str, str]
) -> None:
    file = write_settings(tmp_path_factory.mktemp("plain"))
    with file.open("a") as lines:
        lines.writelines(f"{name}={value}\n" for name, value in more.items())
    assert "STORE_IMAGE" not in file.read_text()
    services = resolve(command, folder, file)["services"]
    assert {*LASTING, "postgres", "init"} <= set(services)
    if more and "minio" in services:
        assert (services["minio"]["image"], services["minio"]["environment"]["MINIO_ROOT_PASSWORD"]) == (
            more["PLUMBLINE_MINIO_IMAGE"],
            more["PLUMBLINE_MINIO_PASSWORD"],
        )


def test_the_store_beside_the_server_has_the_key_that_the_services_use(resolved: dict[str, Any], settings: Path) -> None:
    store, values = resolved["services"]["store"], read_settings(settings)
    assert store["image"].endswith(f"@sha256:{'ab' * 32}")
    assert (store["environment"]["ROOT_ACCESS_KEY"], store["environment"]["ROOT_SECRET_KEY"]) == (
        values["AWS_ACCESS_KEY_ID"],
        values["AWS_SECRET_ACCESS_KEY"],
    )
    assert values["AWS_ENDPOINT_URL"] == "http://store:7070" and values["COMPOSE_PROFILES"] == "store"
    assert {*resolved["services"]["store-bucket"]["depends_on"]} == {"store"}


def test_without_its_secrets_it_says_what_to_do(command: list[str], folder: Path) -> None:
    (folder / "empty.env").touch()
    with pytest.raises(Refused, match="make server-env"):
        resolve(command, folder, folder / "empty.env")


@pytest.mark.full
def test_one_missing_secret_is_enough(command: list[str], folder: Path, settings: Path) -> None:
    for name in (n for n in read_settings(settings) if n.endswith(("PASSWORD", "SECRET", "FERNET_KEY"))):
        lines = [line for line in settings.read_text().splitlines() if not line.startswith(f"{name}=")]
        (folder / "partial.env").write_text("\n".join(lines) + "\n")
        with pytest.raises(Refused, match=name):
            resolve(command, folder, folder / "partial.env")


SECRETS = {
    "PLUMBLINE_FERNET_KEY": {"init", "api-server", "scheduler", "dag-processor", "triggerer"},
    "PLUMBLINE_AIRFLOW_DB_PASSWORD": {"postgres", "init", "api-server", "scheduler", "dag-processor", "triggerer"},
    "PLUMBLINE_ARCHIVE_DB_PASSWORD": {"postgres", "init", "scheduler", "dag-processor", "triggerer", "demo"},
    "PLUMBLINE_READER_DB_PASSWORD": {"postgres", "api-server"},
    "PLUMBLINE_JWT_SECRET": {"api-server", "scheduler"},
    "PLUMBLINE_API_SECRET_KEY": {"api-server"},
    "PLUMBLINE_ADMIN_PASSWORD": {"init"},
    "PLUMBLINE_POSTGRES_PASSWORD": {"postgres"},
}


@pytest.mark.fault("one service of the team server is taken over", ends="refused", keeps="the secrets that it does not use")
def test_each_service_gets_the_secrets_that_it_uses(resolved: dict[str, Any], settings: Path) -> None:
    values, services = read_settings(settings), resolved["services"]
    for name, expected in SECRETS.items():
        holders = {service for service, made in services.items() if values[name] in json.dumps(made)}
        assert holders == expected & set(services), name


def memory(resolved: dict[str, Any], service: str) -> float:
    """The limit of a service in bytes; Compose writes it as bytes, podman-compose as the file does."""
    limit = str(resolved["services"][service]["mem_limit"])
    return float(limit.rstrip("mg")) * {"m": 2**20, "g": 2**30}.get(limit[-1], 1)


@pytest.mark.fault("services of the team server leak memory", ends="each ends at its limit", keeps="a machine of 8 GiB")
def test_no_service_can_take_the_whole_machine(resolved: dict[str, Any]) -> None:
    for name, service in resolved["services"].items():
        assert service["mem_limit"] and service["pids_limit"], name
    assert sum(memory(resolved, name) for name in (*LASTING, "postgres")) <= 7 * 2**30, (
        "of the default profile; init ends before they start"
    )
    assert "--data-checksums" in resolved["services"]["postgres"]["environment"]["POSTGRES_INITDB_ARGS"]
    assert {name for name, s in resolved["services"].items() if "@sha256:" in s["image"]} >= {"postgres"}


@dataclass
class Server:
    """The running graph, with what `init` said."""

    graph: Processes
    postgres: TcpPostgres
    address: str
    said: str
    settings: dict[str, str]

    def client(self) -> AirflowClient:
        return AirflowClient(self.address, self.settings["PLUMBLINE_ADMIN_USER"], self.settings["PLUMBLINE_ADMIN_PASSWORD"])


@pytest.fixture(scope="module")
def server(folder: Path, settings: Path, resolved: dict[str, Any]) -> Iterator[Server]:
    secrets = {k: v for k, v in read_settings(settings).items() if not k.startswith("AWS_")}
    data = folder / "pg"
    data.mkdir()
    postgres = TcpPostgres(data)
    api, health = free_port(), free_port()
    (folder / "probe").mkdir()
    (folder / "probe" / "server_probe.py").write_text(DAG)
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "dags-folder", "classpath": local, "kwargs": {}}]
    bundles += [{"name": "probe", "classpath": local, "kwargs": {"path": str(folder / "probe")}}]
    graph = Processes(
        resolved["services"],
        folder,
        secrets,
        replaced={
            "@postgres:5432/": f"@127.0.0.1:{postgres.port}/",
            "http://api-server:8080": f"http://127.0.0.1:{api}",
            "http://localhost:8080": f"http://127.0.0.1:{api}",
            "8080": str(api),
            "8974": str(health),
            "0.0.0.0": "127.0.0.1",
            "/opt/plumbline": str(ROOT),
            "s3://plumbline/results": (folder / "results").as_uri(),
        },
        extra={
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "PYTHONPATH": search_path(ROOT / "include"),
        },
    )
    try:
        environment = {k: str(v) for k, v in resolved["services"]["postgres"]["environment"].items()}
        postgres.run_file(ROOT / "k8s/airflow/postgres-roles.sql", environment)
        done = graph.run("init")
        assert done.returncode == 0, done.stdout
        graph.start_all(LASTING, limit_s=300)
        yield Server(graph, postgres, f"http://127.0.0.1:{api}", done.stdout, secrets)
    finally:
        graph.stop()
        postgres.stop()


@pytest.mark.full
def test_init_can_be_run_again(server: Server) -> None:
    again = server.graph.run("init")
    assert again.returncode == 0, again.stdout
    assert "already exists" in again.stdout
    assert "Pool" in again.stdout or "pool" in again.stdout


@pytest.mark.full
def test_a_deferred_task_is_resumed_and_the_run_ends_well(server: Server) -> None:
    with server.client() as client:
        deadline = time.monotonic() + 300
        while "server_probe" not in client.dags() and time.monotonic() < deadline:
            time.sleep(0.5)
        assert client.import_errors() == {}
        client.set_paused("server_probe", False)
        run = client.trigger("server_probe", {})
        states = set()
        while not run.ended and time.monotonic() < deadline:
            states |= {t.state for t in client.tasks(run.dag_id, run.run_id) if t.task_id == "wait"}
            time.sleep(0.2)
            run = client.run(run.dag_id, run.run_id)
        assert run.state == "success", {t.task_id: t.state for t in client.tasks(run.dag_id, run.run_id)}
        assert "deferred" in states
        assert client.xcom(run.dag_id, run.run_id, "archive") == "postgresql"
        waited = next(t for t in client.tasks(run.dag_id, run.run_id) if t.task_id == "wait")
        assert "Trigger fired event" in client.task_log(run.dag_id, run.run_id, waited), "the API server reads the logs of both"


@pytest.mark.full
@pytest.mark.fault("a benchmark whose pool is missing is started on Airflow's page", ends="made as the run begins", keeps="the run")
def test_a_run_makes_its_missing_pool(server: Server) -> None:
    pool, dag_id = "plumbline_this-machine", "benchmark_local_1core"
    deleted = server.postgres.tool("psql", "--dbname", "airflow", "--command", f"DELETE FROM slot_pool WHERE pool = '{pool}'")
    assert deleted.strip() == b"DELETE 1"
    with server.client() as client:
        client.set_paused(dag_id, False)
        run = client.trigger(dag_id, {"campaign": "no-pool", "workloads": ["gpt-tiny-cpu"]})
        try:
            deadline = time.monotonic() + 120
            while not client.has_pool(pool) and time.monotonic() < deadline:
                time.sleep(0.2)
            assert client.has_pool(pool)
        finally:
            client.set_paused(dag_id, True)
            client.end_run(dag_id, run.run_id, "tried")


@pytest.mark.full
@pytest.mark.fault("the pages' database role is used to write", ends="refused", keeps="the archive")
def test_the_pages_read_the_archive_with_a_role_that_cannot_write(server: Server) -> None:
    url = server.graph.environment("api-server")["PLUMBLINE_ARCHIVE_URL"]
    with psycopg.connect(url) as connection:
        connection.execute("SELECT count(*) FROM trials")
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SET transaction_read_only = off")
        connection.execute("DELETE FROM trials")
    login = {"username": server.settings["PLUMBLINE_ADMIN_USER"], "password": server.settings["PLUMBLINE_ADMIN_PASSWORD"]}
    token = httpx.post(f"{server.address}/auth/token", json=login, timeout=120).json()["access_token"]
    shown = httpx.get(f"{server.address}/plumbline/overview.json", headers={"Authorization": f"Bearer {token}"}, timeout=120)
    assert shown.status_code == 200, shown.text


@pytest.mark.full
@pytest.mark.parametrize(("proto", "secure"), [("https", True), ("http", False)])
@pytest.mark.fault("a login over TLS that a proxy ends", ends="a cookie that is Secure", keeps="the session off clear text")
def test_behind_tls_the_cookie_of_a_login_is_secure(server: Server, proto: str, secure: bool) -> None:
    login = {"username": server.settings["PLUMBLINE_ADMIN_USER"], "password": server.settings["PLUMBLINE_ADMIN_PASSWORD"]}
    page = f"{server.address}/auth/login/"
    # Over TLS the form's protection asks for the page that it was sent from.
    headers = {"X-Forwarded-Proto": proto, "Referer": page.replace("http://", f"{proto}://")}
    with httpx.Client(headers=headers, timeout=120) as browser:
        token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', browser.get(page).text)
        found = browser.post(page, data={**login, **({"csrf_token": token[1]} if token else {})})
    cookies = [value for value in found.headers.get_list("set-cookie") if value.startswith("_token=")]
    assert cookies, (found.status_code, found.headers)
    assert all(("secure" in value.lower()) == secure for value in cookies)


@pytest.mark.full
def test_only_the_logged_in_are_answered(server: Server) -> None:
    for path in ("/api/v2/dags", "/api/v2/connections", "/api/v2/config", "/plumbline/"):
        assert httpx.get(server.address + path).status_code == 401, path
    wrong = {"username": server.settings["PLUMBLINE_ADMIN_USER"], "password": "admin"}
    assert httpx.post(f"{server.address}/auth/token", json=wrong).status_code == 401
    with server.client() as client:
        token = client._send("GET", "/api/v2/dags").request.headers["Authorization"]
    assert httpx.get(f"{server.address}/plumbline/", headers={"Authorization": token}).status_code == 200


@pytest.mark.full
@pytest.mark.parametrize(("role", "own", "other"), [("airflow", "airflow", "plumbline"), ("plumbline", "plumbline", "airflow")])
def test_neither_role_reaches_the_other_database(server: Server, role: str, own: str, other: str) -> None:
    name = {"airflow": "PLUMBLINE_AIRFLOW_DB_PASSWORD", "plumbline": "PLUMBLINE_ARCHIVE_DB_PASSWORD"}[role]
    at = {"host": "127.0.0.1", "port": server.postgres.port, "user": role, "password": server.settings[name]}
    with psycopg.connect(dbname=own, **at) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert tables
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(dbname=other, **at)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dbname=own, **{**at, "password": "wrong"})


@pytest.mark.full
def test_the_archive_comes_back_from_a_backup(server: Server) -> None:
    url = server.graph.environment("scheduler")["PLUMBLINE_ARCHIVE_URL"]
    with open_archive(url) as archive:
        archive.record(document(trial(repeat=1)), uri="file:///store")
        backup = server.postgres.tool("pg_dump", "--format", "custom", "plumbline")
        archive.record(document(trial(repeat=2)), uri="file:///store")
    server.postgres.tool("pg_restore", "--clean", "--if-exists", "--dbname", "plumbline", given=backup)
    with open_archive(url) as archive:
        assert [t.repeat for t in archive.trials()] == [1]
        assert archive.verify() == []
        assert archive.record(document(trial(repeat=2)), uri="file:///store") == "inserted", "still the role's own"


@pytest.mark.full
def test_a_health_check_can_fail(server: Server) -> None:
    for name in LASTING:
        assert server.graph.healthy(name), name
    # The same command on a machine where no triggerer runs.
    elsewhere = {**server.graph.environment("triggerer"), "AIRFLOW__CORE__HOSTNAME_CALLABLE": "tests.fakes.compose_processes.nowhere"}
    elsewhere["PYTHONPATH"] += f":{ROOT}"
    command = server.graph.services["triggerer"]["healthcheck"]["test"][1:]
    assert subprocess.run(command, check=False, env=elsewhere, capture_output=True).returncode != 0


@pytest.mark.full
def test_no_secret_is_in_a_log(server: Server) -> None:
    secrets = {k: v for k, v in server.settings.items() if k.endswith(("PASSWORD", "SECRET", "KEY"))}
    assert len(secrets) > 6
    logs = [p for p in server.graph.folder.rglob("*.log") if "pg" not in p.parts]
    assert len(logs) >= len(LASTING)
    for text in [server.said, *(p.read_text(errors="replace") for p in logs)]:
        assert [name for name, value in secrets.items() if value in text] == []


@pytest.mark.full
def test_stopping_leaves_nothing(server: Server) -> None:
    """The last one here: it stops the services."""
    assert len(server.graph.processes()) >= len(LASTING)
    assert server.graph.stop() == []
    assert server.graph.processes() == []
