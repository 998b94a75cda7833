"""Airflow's connections for commands outside of Airflow, which see only the environment variables AIRFLOW_CONN_….

A command reads a connection once by Airflow's command line, which knows variables, metadata database and secrets backend, and sets the variable.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping

from plumbline.declarations import addresses, installation_paths
from plumbline.embedded.settings import DEFAULT_PORT, environment, write_settings
from plumbline.embedded.supervisor import MIGRATION, is_migrated, note_migrated

_LIMIT_S = 120
_ELSEWHERE = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")


def provide_connections(connection_ids: Iterable[str]) -> list[str]:
    """Make these connections readable in this process and its children; returns those that Airflow does not have.

    RuntimeError with Airflow's message if its command line fails.
    """
    missing = []
    for connection_id in connection_ids:
        if variable(connection_id) in os.environ:
            continue
        uri = _get_connection(connection_id)
        if uri is None:
            missing.append(connection_id)
        else:
            os.environ[variable(connection_id)] = uri
    return missing


def variable(connection_id: str) -> str:
    """The environment variable that Airflow reads the connection from."""
    return f"AIRFLOW_CONN_{connection_id.upper()}"


def airflow_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of this installation's Airflow: the embedded one if it was ever started, else that of `base`."""
    home = installation_paths().airflow_home
    return environment(home, base) if (home / "airflow.cfg").exists() else dict(base)


def database_url() -> str:
    """Airflow's metadata database: the embedded one if it was ever started here or the environment names no other."""
    home = installation_paths().airflow_home
    elsewhere = os.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    return elsewhere if elsewhere and not (home / "airflow.cfg").exists() else addresses.database_url(home / "airflow.db")


def prepare() -> None:
    """Create the embedded Airflow's settings and database if it was never started here and the environment names no other one.

    RuntimeError with Airflow's message if that fails, or if another process is starting one in the same folder.
    """
    home = installation_paths().airflow_home
    if is_migrated(home) or (not (home / "airflow.cfg").exists() and any(name in os.environ for name in _ELSEWHERE)):
        return
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another process is starting an Airflow in {home}; try again when it is ready") from None
        write_settings(home, DEFAULT_PORT, reparse=True)
        line = [sys.executable, "-m", *MIGRATION["migration"]]
        done = subprocess.run(line, env=airflow_environment(os.environ), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Airflow's database in {home} could not be created: {' '.join(done.stderr.strip().splitlines()[-1:])}")
        note_migrated(home)


def _get_connection(connection_id: str) -> str | None:
    line = [sys.executable, "-m", "airflow", "connections", "get", connection_id, "--output", "json"]
    try:
        done = subprocess.run(line, env=airflow_environment(os.environ), capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"`airflow connections get {connection_id}` did not end within {_LIMIT_S} s") from None
    if done.returncode == 0:
        return str(json.loads(done.stdout[done.stdout.index("[") :])[0]["get_uri"])
    if "not found" in done.stderr:
        return None
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    raise RuntimeError(f"`airflow connections get {connection_id}` failed: {' '.join(last) or f'exit status {done.returncode}'}")
