"""Both databases: whether they answer, and whether their tables are those of the installed versions."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive.migrate import head, known_revisions, revision_of
from plumbline.launch.cluster.doctor.line import Line, failed, ok, unknown
from plumbline.orchestration.doctor.place import AirflowPlace

_CONNECT_S = 10


def archive_database(url: str) -> Line:
    """The archive's; one that no campaign has made yet is nothing to look at."""
    check = "archive database"
    try:
        with _engine(url) as engine:
            if engine is None:
                return unknown(check, f"{_shown(url)} is not there yet: the first campaign makes it")
            revision = revision_of(engine)
    except (SQLAlchemyError, ValueError, OSError) as error:
        return failed(check, f"{_shown(url)} does not answer: {_reason(error)}", _start(url, "PLUMBLINE_ARCHIVE_URL"))
    if revision == head():
        return ok(check, f"{_shown(url)}, schema {revision}")
    if revision is not None and revision not in known_revisions():
        return failed(check, f"schema {revision} is newer than this program's {head()}", "install the plumbline version that wrote it")
    return failed(check, f"schema {revision or 'missing'}; this program needs {head()}", "back it up, then `plumbline archive migrate`")


def airflow_database(place: AirflowPlace) -> Line:
    """Airflow's own."""
    check = "Airflow's database"
    if place.kind == "none":
        return unknown(check, "not applicable: no Airflow was started in this installation")
    if place.database is None:
        return failed(
            check, "no database is named", "set AIRFLOW__DATABASE__SQL_ALCHEMY_CONN, or run the doctor in the server's environment"
        )
    migrate = "`docker compose run --rm init`" if place.kind == "server" else "`plumbline up` migrates it"
    try:
        with reading(place.database) as connection:
            if connection is None:
                return failed(check, f"{_shown(place.database)} is not there", migrate)
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    except (SQLAlchemyError, ValueError, OSError) as error:
        return failed(check, f"{_shown(place.database)} does not answer: {_reason(error)}", _start(place.database, "Airflow's database"))
    wanted = airflow_head()
    if revision != wanted:
        return failed(check, f"schema {revision}; the installed Airflow needs {wanted}", migrate)
    return ok(check, f"{_shown(place.database)}, schema {revision}")


def airflow_head() -> str:
    """The revision of the installed Airflow's newest migration; its files carry their order in their names."""
    spec = importlib.util.find_spec("airflow")
    assert spec is not None and spec.submodule_search_locations is not None
    folders = (Path(folder) / "migrations" / "versions" for folder in spec.submodule_search_locations)
    newest = max((file for folder in folders for file in folder.glob("[0-9]*.py")), key=lambda file: file.name)
    found = re.search(r"^revision(?::\s*str)?\s*=\s*[\"'](\w+)", newest.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@contextmanager
def reading(url: str) -> Iterator[Connection | None]:
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
    with reading(url) as connection:
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
        engine = create_engine(f"sqlite:///file:{parsed.database}?mode=ro&uri=true")
    else:
        engine = create_engine(parsed.set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": _CONNECT_S})
    try:
        yield engine
    finally:
        engine.dispose()


def _shown(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _start(url: str, name: str) -> str:
    if make_url(url).get_backend_name() == "postgresql":
        return f"start PostgreSQL (`docker compose up -d postgres`), or correct {name}"
    return f"restore the file from a backup (docs/operate.md), or correct {name}"
