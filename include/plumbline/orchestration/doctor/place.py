"""Which Airflow belongs to this installation, and where its parts are."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plumbline.orchestration import leftovers
from plumbline.orchestration.airflow_settings import TEAM_SERVER

_DATABASE, _EXECUTION, _BASE = (
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__API__BASE_URL",
)


@dataclass(frozen=True)
class AirflowPlace:
    """`kind`: `none` if no Airflow was ever started here and none is named, `embedded` for the one of `plumbline run` and `plumbline up`,
    `server` for one that the environment names. `running`: whether its components are to be there now. `start`: how to start one of them."""

    kind: str
    running: bool
    database: str | None = None
    address: str | None = None

    def start(self, component: str) -> str:
        """The command that starts a component, or what starts all of them."""
        return f"start it: `docker compose up -d {component}`" if self.kind == "server" else "start Airflow again: `plumbline up`"


def find(home: Path, environ: Mapping[str, str] = os.environ) -> AirflowPlace:
    """The environment's Airflow if it names a database, else the embedded one in `home`."""
    database = environ.get(_DATABASE)
    if database:
        execution = environ.get(_EXECUTION, "").rstrip("/").removesuffix("/execution")
        return AirflowPlace("server", True, database, execution or environ.get(_BASE) or None)
    settings = configparser.ConfigParser(interpolation=None)
    if not settings.read(home / "airflow.cfg"):
        return AirflowPlace("server" if environ.get(TEAM_SERVER) else "none", bool(environ.get(TEAM_SERVER)))
    record = leftovers.read_record(home / "server.json")
    running = record is not None and bool(leftovers.leftovers(record))
    return AirflowPlace("embedded", running, settings["database"]["sql_alchemy_conn"], settings["api"]["base_url"])
