"""Settings of the embedded Airflow: a generated airflow.cfg and its secrets."""

from __future__ import annotations

import configparser
import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

from plumbline.declarations.addresses import database_url
from plumbline.declarations.installation import PACKAGE, REPOSITORY, dag_folder

USERNAME = "admin"
DEFAULT_PORT = 8080
_PRIVATE = 0o600
_HOUR_S = 3600


def write_settings(home: Path, port: int, *, reparse: bool) -> Path:
    """Write `home`/airflow.cfg for an Airflow on 127.0.0.1:`port`; secrets are created once. Returns the file.

    `reparse`: read edited DAG files again. Otherwise each file is parsed once at the start.
    """
    if os.path.expandvars(home) != str(home):
        raise ValueError(f"Airflow cannot use the folder {home}: it replaces the variable in its name; expected one without $")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    secrets = _read_secrets(home / "secrets.json")
    _write_private(_password_file(home), json.dumps({USERNAME: secrets["password"]}) + "\n")
    config = configparser.ConfigParser(interpolation=None)
    settings = _settings(home, port, secrets, reparse)
    # Airflow reads the file with interpolation.
    config.read_dict({section: {key: value.replace("%", "%%") for key, value in keys.items()} for section, keys in settings.items()})
    target = home / "airflow.cfg"
    draft = home / ".airflow.cfg.part"
    _write_private(draft, "")
    with draft.open("w") as file:
        config.write(file)
    draft.replace(target)
    return target


def environment(home: Path, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of Airflow's processes: `base` with our home and library, without what would override airflow.cfg."""
    ours = {f"AIRFLOW__{s.upper()}__{k.upper()}" for s, keys in _settings(home, 0, _NO_SECRETS, False).items() for k in keys}
    inherited = {k: v for k, v in base.items() if k not in ours and k.removesuffix("_CMD").removesuffix("_SECRET") not in ours}
    library = str(PACKAGE.parent)
    others = [p for p in base.get("PYTHONPATH", "").split(os.pathsep) if p and p != library]
    # With it, every start compiles all of Airflow.
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        "PYTHONPATH": os.pathsep.join([library, *others]),
        "GX_ANALYTICS_ENABLED": "false",
    }


def password(home: Path) -> str:
    """The password of USERNAME. FileNotFoundError before the first start."""
    return str(json.loads(_password_file(home).read_text())[USERNAME])


def _settings(home: Path, port: int, secrets: Mapping[str, str], reparse: bool) -> dict[str, dict[str, str]]:
    address = f"http://127.0.0.1:{port}"
    return {
        "core": {
            # A checkout is the bundle: include/ travels with the DAGs, .airflowignore keeps the parser inside dags/.
            "dags_folder": str(REPOSITORY or dag_folder()),
            "plugins_folder": str((REPOSITORY or home) / "plugins"),
            "load_examples": "False",
            "executor": "LocalExecutor",
            # One task at a time, on purpose: while a trial measures, no other task of this Airflow may use its cores.
            "parallelism": "1",
            # Nothing starts by itself: `run` unpauses what it triggers, a person unpauses the monthly schedule.
            "dags_are_paused_at_creation": "True",
            "execution_api_server_url": f"{address}/execution/",
            "simple_auth_manager_users": f"{USERNAME}:admin",
            "simple_auth_manager_all_admins": "False",
            "simple_auth_manager_passwords_file": str(_password_file(home)),
            "fernet_key": secrets["fernet_key"],
            # Our own message about an invalid declaration, without a long traceback.
            "dagbag_import_error_traceback_depth": "0",
            # On a starved machine 30 s are too few; then the DAG would be stale, and its campaigns would stop.
            "dagbag_import_timeout": "120",
        },
        "database": {"sql_alchemy_conn": database_url(home / "airflow.db")},
        "api": {
            "host": "127.0.0.1",
            "port": str(port),
            "base_url": address,
            "workers": "1",
            "secret_key": secrets["secret_key"],
        },
        "api_auth": {"jwt_secret": secrets["jwt_secret"]},
        # The components must idle beside the measurement: polling is as slow as answers permit.
        "scheduler": {
            "job_heartbeat_sec": "10",
            "scheduler_idle_sleep_time": "1",
            "pool_metrics_interval": str(_HOUR_S),
            "ti_metrics_interval": str(_HOUR_S),
            "dagrun_metrics_interval": str(_HOUR_S),
            "task_instance_heartbeat_timeout_detection_interval": "60",
            "trigger_timeout_check_interval": "60",
            "parsing_cleanup_interval": "300",
        },
        "dag_processor": {
            "parsing_processes": "1",
            "dag_file_processor_timeout": "180",
            "min_file_process_interval": "30" if reparse else str(24 * _HOUR_S),
            "refresh_interval": "60" if reparse else str(24 * _HOUR_S),
            "bundle_refresh_check_interval": "30",
            "print_stats_interval": str(_HOUR_S),
        },
        "triggerer": {"job_heartbeat_sec": "10", "capacity": "100"},
        "workers": {
            # Also how long a task's end may go unnoticed: with the default of 5 s a campaign waits for minutes.
            "min_heartbeat_interval": "1",
            # A task outlasts the restart of the API server: about 50 s for each request, and five minutes of them for the heartbeats,
            # when the scheduler gives the task up too. The defaults end a measurement after some 40 s.
            "execution_api_retries": "10",
            "execution_api_retry_wait_max": "15",
            "max_failed_heartbeats": "6",
        },
        "logging": {
            "base_log_folder": str(home / "logs"),
            # Airflow does not fill in its own home where that has a %.
            "dag_processor_child_process_log_directory": str(home / "logs" / "dag_processor"),
            "colored_console_log": "False",
        },
    }


_NO_SECRETS = {"fernet_key": "", "secret_key": "", "jwt_secret": ""}


def _password_file(home: Path) -> Path:
    return home / "passwords.json"


def _read_secrets(file: Path) -> dict[str, str]:
    wanted: dict[str, Callable[[], str]] = {
        # Fernet's own key format: 32 random bytes, urlsafe base64.
        "fernet_key": lambda: urlsafe_b64encode(os.urandom(32)).decode(),
        "secret_key": lambda: secrets.token_urlsafe(32),
        "jwt_secret": lambda: secrets.token_urlsafe(48),
        "password": lambda: secrets.token_urlsafe(15),
    }
    stored: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    if set(stored) != set(wanted):
        stored = {name: stored.get(name) or make() for name, make in wanted.items()}
        _write_private(file, json.dumps(stored))
    return stored


def _write_private(file: Path, text: str) -> None:
    """Create with mode 0600: a mode set later leaves a moment in which others can read."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as stream:
        stream.write(text)
