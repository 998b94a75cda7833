"""Which running Airflow a command speaks to: the one that the environment names, else the one of this installation."""

from __future__ import annotations

import configparser
import os

from plumbline.declarations import places
from plumbline.orchestration.airflow_client import AirflowClient, AirflowError
from plumbline.orchestration.airflow_settings import USERNAME, password

ADDRESS, USER, PASSWORD = "PLUMBLINE_AIRFLOW_URL", "PLUMBLINE_AIRFLOW_USER", "PLUMBLINE_AIRFLOW_PASSWORD"
_HOW = f"start one with `plumbline up`, or name a team's server: {ADDRESS}, {USER} and {PASSWORD}"


def address() -> str:
    """Base URL of the Airflow; AirflowError if none is named and this installation never started one."""
    named = os.environ.get(ADDRESS)
    if named:
        return named.rstrip("/")
    settings = configparser.ConfigParser(interpolation=None)
    if not settings.read(places().airflow_home / "airflow.cfg"):
        raise AirflowError(f"no Airflow was ever started in {places().airflow_home}; {_HOW}")
    return settings["api"]["base_url"]


def client() -> AirflowClient:
    """A client that has logged in. AirflowError with what to do if nothing answers, or if the login is refused or missing."""
    url = address()
    reached = AirflowClient(url, *_login())
    try:
        reached.login()
    except AirflowError as error:
        reached.close()
        raise AirflowError(f"no Airflow can be used at {url}: {error}\n{_HOW}") from error
    return reached


def _login() -> tuple[str, str]:
    if not os.environ.get(ADDRESS):
        return USERNAME, password(places().airflow_home)
    missing = [name for name in (USER, PASSWORD) if not os.environ.get(name)]
    if missing:
        raise AirflowError(
            f"{ADDRESS} is set but {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not; expected a login there"
        )
    return os.environ[USER], os.environ[PASSWORD]
