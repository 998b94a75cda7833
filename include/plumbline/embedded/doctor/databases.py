"""The Airflow of this installation, and whether both databases answer and match the installed versions."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive.migrate import head, revision_of, revisions
from plumbline.declarations.addresses import database_url
from plumbline.declarations.dag_ids import in_shared_airflow
from plumbline.declarations.installation import TEAM_SERVER, dag_folder
from plumbline.embedded import server
from plumbline.launch.doctor_check import DoctorCheck, failed, ok, skipped, unknown

_DATABASE, _EXECUTION, _BASE = (
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__API__BASE_URL",
)


@dataclass(frozen=True)
class AirflowPlace:
    """`kind`: `none` if no Airflow was ever started here and none is named, `embedded` for the one of `plumbline run` and `plumbline up`,
    `server` for one that the environment names, `shared` for one that a team had already. `dags`: its DAG files. `running`: whether its components are to be there now. `start`: how to start one of them."""

    kind: str
    running: bool
    database: str | None = None
    address: str | None = None
    dags: Path = field(default_factory=dag_folder)

    @property
    def serves_a_team(self) -> bool:
        return self.kind in ("server", "shared")

    def start(self, component: str) -> str:
        """The command that starts a component, or what starts all of them."""
        if self.kind == "shared":
            return f"start its {component} as your deployment does"
        return f"start it: `docker compose up -d {component}`" if self.kind == "server" else "start Airflow again: `plumbline up`"


def find_airflow(home: Path, environ: Mapping[str, str] = os.environ) -> AirflowPlace:
    """The Airflow that a team had, the environment's if it names a database, else the embedded one in `home`."""
    if in_shared_airflow():
        return _shared_airflow()
    database = environ.get(_DATABASE)
    if database:
        execution = environ.get(_EXECUTION, "").rstrip("/").removesuffix("/execution")
        return AirflowPlace("server", True, database, execution or environ.get(_BASE) or None)
    settings = configparser.ConfigParser(interpolation=None)
    if not settings.read(home / "airflow.cfg"):
        return AirflowPlace("server" if environ.get(TEAM_SERVER) else "none", bool(environ.get(TEAM_SERVER)))
    record = server.read_record(home / "server.json")
    running = record is not None and bool(server.remaining_processes(record))
    return AirflowPlace("embedded", running, database_url(home / "airflow.db"), settings["api"]["base_url"])


def _shared_airflow() -> AirflowPlace:
    """By that Airflow's own settings, which it also takes from files, commands and secrets."""
    from airflow.configuration import conf

    dags = Path(conf.get("core", "dags_folder"))
    return AirflowPlace("shared", True, conf.get("database", "sql_alchemy_conn"), conf.get("api", "base_url", fallback=None) or None, dags)


_CONNECT_S = 10


def archive_database(url: str) -> DoctorCheck:
    """The archive's; one that no campaign has made yet is nothing to look at."""
    check = "archive database"
    try:
        with _engine(url) as engine:
            if engine is None:
                return skipped(check, f"not applicable yet: {_without_password(url)} is made by the first campaign")
            revision = revision_of(engine)
    except (SQLAlchemyError, ValueError, OSError) as error:
        return failed(check, f"{_without_password(url)} does not answer: {_reason(error)}", _start(url, "PLUMBLINE_ARCHIVE_URL"))
    if revision is None:
        return unknown(check, f"{_without_password(url)} is empty", "its tables: the first campaign, or `server_init`, makes them")
    if revision == head():
        return ok(check, f"{_without_password(url)}, schema {revision}")
    if revision > head():
        return failed(check, f"schema {revision} is newer than this program's {head()}", "install the plumbline version that wrote it")
    if revision not in revisions():
        wrong = f"{_without_password(url)} has the schema {revision}, from before the first release"
        return failed(check, wrong, "`plumbline archive export` with the version that wrote it, then import into a new archive")
    return failed(check, f"schema {revision}; this program needs {head()}", "back it up, then `plumbline archive migrate`")


def airflow_database(place: AirflowPlace) -> DoctorCheck:
    check = "Airflow's database"
    if place.kind == "none":
        return skipped(check, "not applicable: no Airflow was started in this installation")
    if place.database is None:
        return failed(
            check, "no database is named", "set AIRFLOW__DATABASE__SQL_ALCHEMY_CONN, or run the doctor in the server's environment"
        )
    migrate = {"server": "`docker compose run --rm init`", "shared": "`airflow db migrate`"}.get(place.kind, "`plumbline up` migrates it")
    try:
        with read_only(place.database) as connection:
            if connection is None:
                return failed(check, f"{_without_password(place.database)} is not there", migrate)
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    except (SQLAlchemyError, ValueError, OSError) as error:
        return failed(
            check, f"{_without_password(place.database)} does not answer: {_reason(error)}", _start(place.database, "Airflow's database")
        )
    wanted = airflow_head()
    if revision != wanted:
        return failed(check, f"schema {revision}; the installed Airflow needs {wanted}", migrate)
    return ok(check, f"{_without_password(place.database)}, schema {revision}")


def airflow_head() -> str:
    """The revision of the installed Airflow's newest migration; its files carry their order in their names."""
    spec = importlib.util.find_spec("airflow")
    assert spec is not None and spec.submodule_search_locations is not None
    folders = (Path(folder) / "migrations" / "versions" for folder in spec.submodule_search_locations)
    newest = max((file for folder in folders for file in folder.glob("[0-9]*.py")), key=lambda file: file.name)
    match = re.search(r"^revision(?::\s*str)?\s*=\s*[\"'](\w+)", newest.read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


@contextmanager
def read_only(url: str) -> Iterator[Connection | None]:
    """A connection to the database; None if it is a file that is not there."""
    with _engine(url) as engine:
        if engine is None:
            yield None
        else:
            with engine.connect() as connection:
                yield connection


def clock_of(url: str) -> datetime | None:
    """The time by a PostgreSQL server's clock; None of a file."""
    if make_url(url).get_backend_name() != "postgresql":
        return None
    with read_only(url) as connection:
        assert connection is not None
        at: Any = connection.execute(text("SELECT clock_timestamp()")).scalar()
        return at.astimezone(timezone.utc)  # type: ignore[no-any-return]


@contextmanager
def _engine(url: str) -> Iterator[Engine | None]:
    """Opened as it is: a look makes no file and migrates nothing."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if not Path(str(parsed.database)).is_file():
            yield None
            return
        file = URL.create("sqlite", database=Path(str(parsed.database)).resolve().as_uri(), query={"mode": "ro", "uri": "true"})
        engine = create_engine(file)
    else:
        engine = create_engine(parsed.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": _CONNECT_S})
    try:
        yield engine
    finally:
        engine.dispose()


def _without_password(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _start(url: str, name: str) -> str:
    if in_shared_airflow():
        return f"start that database, or correct {name}"
    if make_url(url).get_backend_name() == "postgresql":
        return f"start PostgreSQL (`docker compose up -d postgres`), or correct {name}"
    return f"restore the file from a backup (docs/operate.md), or correct {name}"
