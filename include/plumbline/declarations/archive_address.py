"""The address of the archive: PLUMBLINE_ARCHIVE_URL, the Airflow connection `plumbline_archive`, or the file of the home.

With the connection, an Airflow of several machines needs no variable and no folder for the archive. Only processes of such an Airflow ask for it, and commands
where AIRFLOW_CONN_PLUMBLINE_ARCHIVE defines it; the Airflow that `plumbline run` starts has the archive of its home.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pkgutil import resolve_name
from typing import cast
from urllib.parse import parse_qs, urlsplit

CONNECTION = "plumbline_archive"
SETTING, DEFINED_BY = "PLUMBLINE_ARCHIVE_URL", f"AIRFLOW_CONN_{CONNECTION.upper()}"
READ_BY = "plumbline.launch.archive_connection:archive_url"
"""`module:function` that gives the connection as a URL, or None if it is not defined."""
EMBEDDED = "PLUMBLINE_SERVER"
"""Set in the Airflow that Plumbline starts itself."""


class WrongAddress(ValueError):
    """The archive's address cannot be known: the message names the connection, or it and the variable, and what is expected."""


_state: dict[str, str | None] = {}
_IN_AIRFLOW = "in Airflow"


def ask_airflow() -> None:
    """Say that this process is one of Airflow's, which can read its connections."""
    _state[_IN_AIRFLOW] = ""


def archive_address(setting: str | None, own: str) -> str:
    """The address in force. `setting`: of PLUMBLINE_ARCHIVE_URL; `own`: where nothing is set.

    WrongAddress if setting and connection name two databases, or the connection none; OSError if Airflow does not answer."""
    given = _connection()
    if given is None or setting is None:
        return setting or given or own
    if _database(setting) != _database(given):
        raise WrongAddress(
            f"the Airflow connection {CONNECTION} names {_words(given)}, {SETTING} names {_words(setting)}; expected one of them, or both with the same "
            "host, port and database"
        )
    return setting  # such as with the role of a reader


def _connection() -> str | None:
    defined = os.environ.get(DEFINED_BY)
    if defined is None and (_IN_AIRFLOW not in _state or EMBEDDED in os.environ):
        return None
    key = f"connection {defined}"
    if key not in _state:  # once a process: each task would ask Airflow's API again and again
        _state[key] = cast("Callable[[], str | None]", resolve_name(READ_BY))()
    return _state[key]


def _database(url: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(url)
    kind = parts.scheme.partition("+")[0]
    host = parts.hostname or "".join(parse_qs(parts.query).get("host", ()))
    return kind, host, parts.port or (5432 if kind == "postgresql" else None), parts.path


def _words(url: str) -> str:
    kind, host, port, path = _database(url)
    return f"{kind}://{host}{'' if port is None else f':{port}'}{path}"
