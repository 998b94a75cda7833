"""The Airflow connection `plumbline_archive` as the archive's address: what `declarations.archive_address` names by READ_BY."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from plumbline.declarations.archive_address import CONNECTION, WrongAddress
from plumbline.launch.connections import defined_connection

_TYPES = ("postgres", "postgresql")
_OPTIONS = frozenset(
    {
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding", "gssencmode", "target_session_attrs"),
        *("connect_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "application_name", "host"),
    }
)
"""Extras that PostgreSQL's client takes. `host`: the folder of a socket."""


def archive_url() -> str | None:
    """The address that the connection gives; None if it is not defined.

    WrongAddress if it is of no PostgreSQL database; OSError if Airflow does not answer."""
    connection = defined_connection(CONNECTION)
    return None if connection is None else url_of(connection)


def url_of(connection: Any) -> str:
    """The URL of a connection's database; WrongAddress that names the field which does not fit, and quotes no value."""
    where = f"the Airflow connection {CONNECTION}"
    if connection.conn_type not in _TYPES:
        raise WrongAddress(f'{where} has the type "{connection.conn_type}"; expected postgres: workers on several machines share no file')
    extra = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "", False)}
    if unknown := sorted(set(extra) - _OPTIONS):
        raise WrongAddress(f"{where} has the extra {unknown[0]}; expected some of {', '.join(sorted(_OPTIONS))}")
    if wrong := sorted(name for name, value in extra.items() if not isinstance(value, str | int)):
        raise WrongAddress(f"{where} has no text as extra {wrong[0]}; expected one as PostgreSQL's client takes it")
    for field, value in (("host", connection.host or extra.get("host")), ("schema, the database's name", connection.schema)):
        if not value:
            raise WrongAddress(f"{where} has no {field}; expected host, schema, login and password of the archive's database")
    login = quote(connection.login or "", safe="")
    password = f":{quote(connection.password, safe='')}" if connection.password else ""
    user = f"{login}{password}@" if login else ""
    host = connection.host or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{connection.port}" if connection.port else ""
    return f"postgresql://{user}{host}{port}/{quote(connection.schema, safe='')}" + (f"?{urlencode(extra)}" if extra else "")
