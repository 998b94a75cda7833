"""An installation: folders and URLs, free disk space, retention (`upkeep.yaml`). `storage` says what lies where."""

from __future__ import annotations

import configparser
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

from pydantic import Field

from plumbline.declarations.addresses import database_url, store_url
from plumbline.declarations.archive_address import DEFINED_BY, SETTING, archive_address
from plumbline.declarations.base import ConnectionId, Declared
from plumbline.declarations.urls import DeclaredUrl, StoreUrl
from plumbline.metrics.units import ByteSize, Duration

TEAM_SERVER = "PLUMBLINE_TEAM_SERVER"
"""The compose file and the Helm values set it to true: upkeep DAGs then start unpaused."""

REQUEST_KEY = "AIRFLOW__CORE__FERNET_KEY"
"""The setting of Airflow whose keys sign what the pages ask for."""

CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of one installation may be apart."""

PACKAGE = Path(str(files("plumbline"))).resolve()
"""The folder of the package; the one above it is on the search path of every process that imports it."""


def _repository() -> Path | None:
    above = PACKAGE.parent.parent
    return above if PACKAGE.parent.name == "include" and (above / "pyproject.toml").is_file() else None


REPOSITORY = _repository()
"""The checkout that this code runs from, which is an installation of its own; None where the package is installed."""


def is_team_server() -> bool:
    """Whether this process is of a server that a team shares, where what counts is what the team declared."""
    return os.environ.get(TEAM_SERVER, "").lower() == "true"


@dataclass(frozen=True)
class InstallationPaths:
    """`PLUMBLINE_HOME` moves everything; the others move one thing each."""

    home: Path
    config: Path
    results_url: str
    archive_setting: str | None

    @property
    def archive_url(self) -> str:
        """The archive's address; raises like `archive_address`."""
        return archive_address(self.archive_setting, self.own_archive_url)

    @property
    def own_archive_url(self) -> str:
        """The default of `archive_url`."""
        return database_url(self.home / "archive.db")

    @property
    def reports(self) -> Path:
        return self.home / "reports"

    @property
    def data_docs(self) -> Path:
        return self.home / "data-docs"

    @property
    def acceptance(self) -> Path:
        return self.home / "acceptance"

    @property
    def work(self) -> Path:
        """Scratch space of running trials; emptied when a trial ends."""
        return self.home / "work"

    @property
    def cache(self) -> Path:
        """Generated data sets and backends, keyed by their hashes; safe to delete."""
        return self.home / "cache"

    @property
    def generated_providers(self) -> Path:
        """Declarations that the installation generates for this machine. Not in force on a team server: every service writes to its home."""
        return self.home / "providers"

    @property
    def airflow_home(self) -> Path:
        return self.home / "airflow"


@contextmanager
def override_home(home: Path, config: Path | None = None) -> Iterator[None]:
    """A temporary home, and with `config` temporary declarations, for this process and those that it starts."""
    names: dict[str, str | None] = {"PLUMBLINE_HOME": str(home), "PLUMBLINE_RESULTS_URL": None, SETTING: None, DEFINED_BY: None}
    if config is not None:
        names["PLUMBLINE_CONFIG"] = str(config)
    before = {name: os.environ.get(name) for name in names}
    _set_environment(names)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def example_declarations() -> Path:
    """The folder of declarations that the package brings; of a checkout its own, which are the same files."""
    return REPOSITORY / "include" / "config" if REPOSITORY else PACKAGE / "examples"


def dag_folder() -> Path:
    """Where the DAG files of an Airflow lie that Plumbline starts itself: a checkout's, or `dags` of the folder that the process works in."""
    return (REPOSITORY or Path.cwd()) / "dags"


def installation_paths() -> InstallationPaths:
    """The paths that this process's environment sets. By default a checkout is the installation; of an installed package it is the folder
    that the process works in, with `config`, `var` and `dags`."""
    home = Path(os.environ.get("PLUMBLINE_HOME") or (REPOSITORY or Path.cwd()) / "var").resolve()
    return InstallationPaths(
        home=home,
        config=Path(os.environ.get("PLUMBLINE_CONFIG") or (REPOSITORY / "include" if REPOSITORY else Path.cwd()) / "config").resolve(),
        results_url=os.environ.get("PLUMBLINE_RESULTS_URL") or store_url(home / "results"),
        archive_setting=os.environ.get(SETTING) or None,
    )


AIRFLOW_URL = "PLUMBLINE_AIRFLOW_URL"


def airflow_url() -> str | None:
    """Base URL of Airflow from Airflow's own setting, PLUMBLINE_AIRFLOW_URL or the installation's airflow.cfg, or None."""
    configured = os.environ.get("AIRFLOW__API__BASE_URL") or os.environ.get(AIRFLOW_URL)
    if configured:
        return configured.rstrip("/")
    folder = os.environ.get("AIRFLOW_HOME") or installation_paths().airflow_home
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(os.environ.get("AIRFLOW_CONFIG") or Path(folder) / "airflow.cfg")
    return settings.get("api", "base_url", fallback=None) or None


_DAY_S = 86400.0


class EvidenceRules(Declared):
    """Daily upkeep of raw evidence. Numbers, documents and cited evidence are kept forever."""

    keep: Duration | None = Field(None, ge=_DAY_S, description="retention of uncited evidence, at least 1d; unlimited if omitted")
    read_every: Duration = Field(
        30 * _DAY_S,
        ge=_DAY_S,
        le=366 * _DAY_S,
        description="interval in which each file is verified against its SHA-256, an equal share a day: 1d to 366d",
    )
    most_files: int = Field(1000, ge=1, le=100_000, description="limit of files of one attempt; a result with more is quarantined")
    most_bytes: ByteSize = Field(
        8 * 2.0**30, description="limit of the total size of one attempt's files, such as 8GiB; a result with more is quarantined"
    )
    stores: tuple[StoreUrl, ...] = Field(
        (),
        description="further result stores with evidence of the archive, such as s3://theirs/results of imported campaigns",
    )


class RetentionRules(Declared):
    """Retention of reproducible or redundant data. `null` keeps it forever."""

    logs: Duration | None = Field(90 * _DAY_S, ge=_DAY_S, description="Airflow's log files of tasks, DAG files and components")
    data_docs: Duration | None = Field(
        180 * _DAY_S, ge=_DAY_S, description="pages of a campaign's quality checks; clearing `validate` regenerates them"
    )
    reports: Duration | None = Field(400 * _DAY_S, ge=_DAY_S, description="a campaign's report; `plumbline report CAMPAIGN` regenerates it")
    quarantine: Duration | None = Field(
        400 * _DAY_S, ge=_DAY_S, description="copies of documents in quarantine; the attempt's own file remains"
    )
    snapshots: Duration | None = Field(
        90 * _DAY_S,
        ge=_DAY_S,
        description="environment checks that equal those before and after them; changes are kept forever",
    )
    observations: Duration | None = Field(800 * _DAY_S, ge=62 * _DAY_S, description="checks of uptime and capacity, at least 62d")


class ExportTarget(Declared):
    """A target for copies of finished campaigns."""

    to: DeclaredUrl = Field(
        pattern=r"^(s3|gs|gcs|az|abfs|abfss)://.+|^file:///.+",
        description="parent of each campaign's folder, such as s3://bucket/exports or file:///mnt/exports",
    )
    connection: ConnectionId | None = Field(None, description="Airflow connection with its credentials; the environment's if omitted")


class Upkeep(Declared):
    """The file `upkeep.yaml`. By default evidence is kept forever and nothing is exported."""

    evidence: EvidenceRules = EvidenceRules()
    keep: RetentionRules = RetentionRules()
    export: ExportTarget | None = None
    start_while_broken: Duration = Field(
        7 * _DAY_S,
        ge=3600.0,
        le=90 * _DAY_S,
        description="how long trials start by the last valid declarations while a file is broken: 1h to 90d; running ones end",
    )


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE, _POSTGRESQL = "database or disk is full", "DiskFull"
_GIB = 2.0**30


def full_disk_message(error: BaseException | None) -> str | None:
    """A message for an error whose chain has a full disk or an exhausted quota; None for any other."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            where = f" ({error.filename})" if error.filename else ""
            return f"disk full or quota exhausted{where}: {os.strerror(error.errno)}; free space and try again"
        if _SQLITE in str(error) or type(error).__name__ == _POSTGRESQL:
            return "the disk of the archive's database is full; free space and try again. Earlier records are intact"
        error = error.__cause__ or error.__context__
    return None


def insufficient_space(folder: Path, needed: float) -> str | None:
    """Why `needed` bytes do not fit on the disk of a folder, which may not exist yet, or None."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= needed:
        return None
    return f"the disk of {folder} has {free / _GIB:.2f} GiB free, but the trial needs {needed / _GIB:.2f} GiB; free space and retry"
