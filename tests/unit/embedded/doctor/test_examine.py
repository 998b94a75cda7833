"""The doctor on a team server made of real parts (the tables of the installed Airflow, an archive, a store, a health page), one broken thing at a
time: each is named with its remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from sqlalchemy import create_engine, text
from tests.fakes.fake_airflow_api import FakeAirflow, fake_airflow
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.trials import CONFIG, cluster_provider
from typer.testing import CliRunner

from plumbline.archive import open_archive
from plumbline.cli.app import app
from plumbline.declarations import load
from plumbline.embedded.doctor import machine
from plumbline.embedded.doctor.dag_files import declared_dags
from plumbline.embedded.doctor.databases import airflow_head
from plumbline.embedded.doctor.examination import examine
from plumbline.launch.doctor_check import DoctorCheck
from plumbline.workflows.plan import pool_slots

TABLES = """
import sys
from sqlalchemy import create_engine, text
from airflow.models import import_all_models
from airflow.models.base import Base
import_all_models()
engine = create_engine(sys.argv[1])
Base.metadata.create_all(engine)
with engine.begin() as connection:
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
"""
DAGS = ("benchmark_cluster_a", "benchmark_local_1core", "benchmark_local_2core", *declared_dags(CONFIG.parents[1] / "dags"))


@dataclass
class Server:
    """A team server in which all is well; `sql` changes Airflow's database."""

    health: FakeAirflow
    database: str
    folder: Path

    def sql(self, statement: str, **values: object) -> None:
        engine = create_engine(self.database)
        with engine.begin() as connection:
            connection.execute(text(statement), values)
        engine.dispose()

    def answer(self, there: list[str], missing: list[str] = [], age: timedelta = timedelta(0)) -> None:  # noqa: B006
        """The triggerer's last answer about its connections."""
        self.sql("DELETE FROM xcom")
        self.sql(
            "INSERT INTO xcom (dag_run_id, task_id, map_index, key, dag_id, run_id, value, timestamp)"
            " VALUES (1, 'connections', -1, 'return_value', 'upkeep', 'r', :value, :at)",
            value=json.dumps({"there": there, "missing": missing, "unread": {}}),
            at=str(datetime.now(timezone.utc) - age)[:26],
        )

    def beat(self, component: str, age: timedelta) -> None:
        at = datetime.now(timezone.utc) - age
        self.health.health[component] = {"status": "healthy", f"latest_{component}_heartbeat": at.isoformat()}


def make_tables(url: str, home: Path) -> None:
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}, "AIRFLOW_HOME": str(home)}
    subprocess.run([sys.executable, "-c", TABLES, url], env=env, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("airflow")
    make_tables(f"sqlite:///{folder / 'airflow.db'}", folder)
    return folder / "airflow.db"


def served(folder: Path, database: str, archive: str, health: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Fill the database and the environment so that everything is right."""
    config = Path(shutil.copytree(CONFIG, folder / "config"))
    provider = json.loads(cluster_provider().model_dump_json(exclude_none=True))
    (config / "providers" / "cluster-a.yaml").write_text(yaml.safe_dump(provider))
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "PLUMBLINE"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "PLUMBLINE_HOME": str(folder / "home"),
        "PLUMBLINE_CONFIG": str(config),
        "PLUMBLINE_ARCHIVE_URL": archive,
        "PLUMBLINE_TEAM_SERVER": "true",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{health.address}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": "a-key",
        "AIRFLOW_HOME": str(folder / "airflow"),
    }.items():
        monkeypatch.setenv(name, value)
    open_archive(archive).close()
    server = Server(health, database, folder)
    for component in ("scheduler", "dag_processor", "triggerer"):
        server.beat(component, timedelta(seconds=3))
    server.sql("INSERT INTO alembic_version VALUES (:head)", head=airflow_head())
    server.sql("INSERT INTO dag_bundle (name) VALUES ('repository')")
    for dag in DAGS:
        server.sql(
            "INSERT INTO dag (dag_id, is_paused, is_stale, bundle_name, max_active_tasks, max_consecutive_failed_dag_runs, has_task_concurrency_limits,"
            " timetable_type, partition_mapper_info)"
            " VALUES (:dag, false, false, 'repository', 16, 0, false, '', '{}')",
            dag=dag,
        )
    for pool, slots in pool_slots(load().enabled_providers()).items():
        server.sql("INSERT INTO slot_pool (pool, slots, include_deferred) VALUES (:pool, :slots, true)", pool=pool, slots=slots)
    server.sql("INSERT INTO connection (conn_id, conn_type, is_encrypted, is_extra_encrypted) VALUES ('k8s_a', 'kubernetes', false, false)")
    server.answer(["k8s_a"])
    return server


@pytest.fixture
def server(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    shutil.copy(empty_database, tmp_path / "airflow.db")
    with fake_airflow() as health:
        yield served(tmp_path, f"sqlite:///{tmp_path / 'airflow.db'}", f"sqlite:///{tmp_path / 'archive.db'}", health, monkeypatch)


def _drop_request_key(_: Server) -> None:
    del os.environ["AIRFLOW__CORE__FERNET_KEY"]  # the fixture's monkeypatch restores it


def wrong() -> list[DoctorCheck]:
    return [line for line in examine() if line.status == "failed"]


def test_a_team_server_in_order_has_nothing_to_repair(server: Server) -> None:
    assert wrong() == []
    checks = {line.check: line.status for line in examine()}
    needed = ("api-server", "scheduler", "dag-processor", "triggerer", "archive database", "Airflow's database", "result store", "pools")
    assert {checks[name] for name in (*needed, "paused DAGs", "connections", "buttons' signature", "free disk", "packages")} == {"ok"}
    assert [file.name for file in (server.folder / "home").rglob("doctor*")] == [], "the look leaves nothing behind"


def _archive(server: Server, revision: str) -> None:
    engine = create_engine(f"sqlite:///{server.folder / 'archive.db'}")
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    engine.dispose()


def _store(server: Server) -> None:
    (server.folder / "home").mkdir(exist_ok=True)
    (server.folder / "home" / "results").write_text("a file where the store's folder should be")


def _break_declarations(server: Server) -> None:
    (server.folder / "config" / "providers" / "cluster-a.yaml").write_text("name: 3\n")


BROKEN: dict[str, tuple[Callable[[Server], None], str, str]] = {
    "the API server is down": (lambda s: s.health.answers.update({"down": (0, 0)}), "api-server", "docker compose up -d api-server"),
    "the scheduler is away": (lambda s: s.beat("scheduler", timedelta(minutes=9)), "scheduler", "docker compose up -d scheduler"),
    "the DAG processor is away": (
        lambda s: s.beat("dag_processor", timedelta(minutes=9)),
        "dag-processor",
        "docker compose up -d dag-processor",
    ),
    "the triggerer never began": (lambda s: s.health.health.update(triggerer={}), "triggerer", "docker compose up -d triggerer"),
    "Airflow's tables are of another version": (
        lambda s: s.sql("UPDATE alembic_version SET version_num = 'older'"),
        "Airflow's database",
        "docker compose run --rm init",
    ),
    "the archive's tables are from before the first release": (
        lambda s: _archive(s, "0004"),
        "archive database",
        "plumbline archive export",
    ),
    "the archive was written by a newer version": (lambda s: _archive(s, "9999"), "archive database", "install the plumbline version"),
    "the result store takes nothing": (_store, "result store", "PLUMBLINE_RESULTS_URL"),
    "a provider was enabled and has no pool": (
        lambda s: s.sql("DELETE FROM slot_pool WHERE pool = 'plumbline_cluster-a'"),
        "pools",
        "docker compose run --rm init",
    ),
    "a pool has the wrong size": (
        lambda s: s.sql("UPDATE slot_pool SET slots = 99 WHERE pool = 'plumbline_cluster-a'"),
        "pools",
        "corrects",
    ),
    "upkeep is paused": (lambda s: s.sql("UPDATE dag SET is_paused = true WHERE dag_id = 'upkeep'"), "paused DAGs", "dags unpause upkeep"),
    "a watch is paused": (
        lambda s: s.sql("UPDATE dag SET is_paused = true WHERE dag_id = 'availability_watch'"),
        "paused DAGs",
        "dags unpause availability_watch",
    ),
    "the DAG of a file is not there": (lambda s: s.sql("DELETE FROM dag WHERE dag_id = 'drift_review'"), "DAGs", "dag-processor"),
    "a benchmark is not there": (
        lambda s: s.sql("UPDATE dag SET is_stale = true WHERE dag_id = 'benchmark_cluster_a'"),
        "DAGs",
        "dag-processor",
    ),
    "a DAG file cannot be parsed": (
        lambda s: s.sql("INSERT INTO import_error (filename, stacktrace) VALUES ('dags/benchmark.py', 'boom')"),
        "DAG files",
        "plumbline check",
    ),
    "a cluster's connection is missing": (lambda s: s.sql("DELETE FROM connection"), "connections", "plumbline cluster kubeconfig"),
    "the triggerer lacks a cluster's connection": (
        lambda s: s.answer([], ["k8s_a"]),
        "triggerer's connections",
        "triggerer's own environment",
    ),
    "there is no key for the buttons": (_drop_request_key, "buttons' signature", "`make server-env` writes one"),
    "a declaration cannot be read": (_break_declarations, "declarations", "plumbline check"),
}


@pytest.mark.fault(
    "nineteen parts of a team server, one at a time", ends="one line of `plumbline doctor` with its remedy", keeps="all else"
)
@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_one_broken_thing_is_one_line_with_its_remedy(
    server: Server, monkeypatch: pytest.MonkeyPatch, case: tuple[Callable[[Server], None], str, str]
) -> None:
    breaks, check, remedy = case
    breaks(server)
    if "down" in server.health.answers:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:9/execution/")
        for job in ("SchedulerJob", "DagProcessorJob", "TriggererJob"):  # what the database knows stands in for the health page
            server.sql("INSERT INTO job (job_type, latest_heartbeat) VALUES (:job, :at)", job=job, at=str(datetime.now(timezone.utc))[:26])
    (line,) = wrong()
    assert line.check == check and remedy in line.remedy


def test_the_key_of_the_buttons_may_be_in_airflows_own_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__CORE__FERNET_KEY")
    file = server.folder / "airflow" / "airflow.cfg"
    file.parent.mkdir()
    file.write_text("[core]\nfernet_key = a%key\n")
    assert wrong() == []
    file.write_text("no section")
    assert [line.status for line in examine() if line.check == "buttons' signature"] == ["unknown"]


CHANNELS = """
channels:
  mail:
    kind: notifier
    class: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    arguments: {to: gpu@example.com, subject: "{title}"}
  ops: {kind: webhook, url: "https://alerts.example.com/x", connection: ops}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", "ops names the connection ops, which is missing"),
        ("subject:", "topic:", "mail: airflow.providers.smtp.notifications.smtp.SmtpNotifier does not take its arguments"),
        ("SmtpNotifier", "SmtqNotifier", "mail: class airflow.providers.smtp.notifications.smtp.SmtqNotifier cannot be imported"),
    ],
)
def test_channels_are_tried_without_sending(server: Server, monkeypatch: pytest.MonkeyPatch, old: str, new: str, expected: str) -> None:
    (server.folder / "config" / "alerts.yaml").write_text(CHANNELS.replace(old, new) if old else CHANNELS)
    if old:
        monkeypatch.setenv("AIRFLOW_CONN_OPS", "{}")
    (line,) = wrong()
    assert line.check == "alerts" and expected in line.found
    assert [(each.status, each.found) for each in examine() if each.check == "alerts" and each.found.startswith("mail by")] == (
        [] if old else [("ok", "mail by SmtpNotifier, made and not sent")]
    )
    ops = [
        each.status
        for each in examine()
        if each.check == "alerts" and each.found.startswith("ops: ops is defined; its secret was not read")
    ]
    assert ops == (["unknown"] if old else [])


@pytest.mark.fault("a wrong clock, a full disk, a package not as locked", ends="one line of `plumbline doctor` each", keeps="all else")
def test_the_clock_the_disk_and_the_versions(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine, "clock_of", lambda url: datetime.now(timezone.utc) - timedelta(minutes=2))
        (line,) = wrong()
        assert line.check == "clock" and "chrony" in line.remedy
    assert [line.status for line in machine.free_disk({"results": tmp_path / "new"}, 2**62)] == ["failed"]
    lock = tmp_path / "requirements.txt"
    lock.write_text('apache-airflow==3.0.0 \\\n    --hash=sha256:00\nold-thing==1 ; python_full_version < "3"\n')
    python, packages = machine.versions(lock)
    assert (
        python.status == "ok" and packages.status == "failed" and "apache-airflow" in packages.found and "old-thing" not in packages.found
    )


@pytest.mark.fault("either database is away", ends="its own line of `plumbline doctor`", keeps="the password, which is not shown")
@pytest.mark.parametrize("name", ["PLUMBLINE_ARCHIVE_URL", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
def test_a_database_that_does_not_answer(server: Server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "postgresql://plumbline:secret@127.0.0.1:9/plumbline")
    (line,) = wrong()
    assert line.check in ("archive database", "Airflow's database") and line.remedy.startswith("start PostgreSQL")
    assert "secret" not in line.found + line.remedy


@pytest.mark.full
@pytest.mark.integration
def test_on_postgresql_too(
    tmp_path: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = postgres_server.new_database()
    driver = database.replace("postgresql://", "postgresql+psycopg://")
    make_tables(driver, tmp_path)
    with create_engine(driver).begin() as connection:  # the answer is planted without the task that gave it
        connection.exec_driver_sql("ALTER TABLE xcom DROP CONSTRAINT xcom_task_instance_fkey")
    with fake_airflow() as health:
        server = served(tmp_path, driver, postgres_server.new_database(), health, monkeypatch)
        assert wrong() == []
        assert next(line for line in examine() if line.check == "clock").status == "ok"
        server.sql("DELETE FROM slot_pool WHERE pool = 'plumbline_cluster-a'")
        assert [line.check for line in wrong()] == ["pools"]


def test_where_no_airflow_runs_nothing_of_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "PLUMBLINE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor", "--json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (0, True)
    asked = {line["check"]: line for line in told["checks"]}
    for name in ("api-server", "scheduler", "dag-processor", "triggerer", "Airflow's database"):
        assert asked[name]["status"] == "skipped" and "not applicable" in asked[name]["found"]
    assert told["judgement"]["verdict"] == "met" and "do not apply here" in told["judgement"]["seen"]


def test_a_check_that_could_not_be_made_is_no_success(server: Server) -> None:
    server.sql("DELETE FROM connection")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__SECRETS__BACKEND", "vault.Backend")
        result = CliRunner().invoke(app, ["doctor"])
        asked = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert result.exit_code == 6 and "? connections" in result.stdout and "right" not in result.stdout
    assert (asked["ok"], asked["judgement"]["verdict"]) == (False, "not_shown")
    assert "none failed" in asked["judgement"]["seen"] and "connections" in asked["judgement"]["decides"]


@pytest.mark.parametrize(
    ("answered", "says"),
    [
        (lambda s: s.sql("DELETE FROM xcom"), "no triggerer was asked yet"),
        (lambda s: s.answer(["k8s_a"], age=timedelta(hours=3)), "answered last at"),
        (lambda s: s.answer(["another"]), "said nothing of k8s_a"),
    ],
    ids=["never", "long ago", "of another"],
)
def test_what_no_triggerer_answered_is_not_shown(server: Server, answered: Callable[[Server], None], says: str) -> None:
    answered(server)
    (line,) = [line for line in examine() if line.check == "triggerer's connections"]
    assert line.status == "unknown" and "not shown" in line.found and says in line.found and "trigger upkeep" in line.remedy
    assert wrong() == []


def test_a_broken_thing_ends_the_command_with_status_1(server: Server) -> None:
    server.beat("scheduler", timedelta(hours=1))
    result = CliRunner().invoke(app, ["doctor"])
    (line,) = wrong()
    assert result.exit_code == 1 and f"→ {line.remedy}" in result.stdout and "scheduler" in line.remedy
