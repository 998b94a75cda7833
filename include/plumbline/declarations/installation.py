"""An installation: its folders and URLs, free disk space, and how long it keeps evidence, logs and reports (`upkeep.yaml`)."""

from __future__ import annotations

import configparser
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.metrics.units import ByteSize, Duration

TEAM_SERVER = "PLUMBLINE_TEAM_SERVER"
"""Set to true by the compose file and the Helm values: what keeps the installation in order starts unpaused."""

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class InstallationPaths:
    """`PLUMBLINE_HOME` moves everything; the others move one thing each."""

    home: Path
    config: Path
    results_url: str
    archive_url: str

    @property
    def own_archive_url(self) -> str:
        """The archive of an installation that shares none: the default of `archive_url`."""
        return f"sqlite:///{self.home / 'archive.db'}"

    @property
    def reports(self) -> Path:
        return self.home / "reports"

    @property
    def data_docs(self) -> Path:
        return self.home / "data-docs"

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
        """Declarations that the installation writes itself: what it found on this machine."""
        return self.home / "providers"

    @property
    def airflow_home(self) -> Path:
        return self.home / "airflow"


@contextmanager
def override_home(home: Path, config: Path | None = None) -> Iterator[None]:
    """Everything that an installation keeps is kept below `home` for a while, in this process and in those that it starts.

    With `config`, what is declared there takes the place of the installation's declarations.
    """
    names: dict[str, str | None] = {"PLUMBLINE_HOME": str(home), "PLUMBLINE_RESULTS_URL": None, "PLUMBLINE_ARCHIVE_URL": None}
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


def installation_paths() -> InstallationPaths:
    """The places of this process's environment."""
    home = Path(os.environ.get("PLUMBLINE_HOME") or REPOSITORY / "var").resolve()
    return InstallationPaths(
        home=home,
        config=Path(os.environ.get("PLUMBLINE_CONFIG") or REPOSITORY / "include" / "config").resolve(),
        results_url=os.environ.get("PLUMBLINE_RESULTS_URL") or (home / "results").as_uri(),
        archive_url=os.environ.get("PLUMBLINE_ARCHIVE_URL") or f"sqlite:///{home / 'archive.db'}",
    )


AIRFLOW_URL = "PLUMBLINE_AIRFLOW_URL"


def airflow_url() -> str | None:
    """Base URL of Airflow: by PLUMBLINE_AIRFLOW_URL, Airflow's own setting, or the airflow.cfg of this installation; None if there is none."""
    named = os.environ.get("AIRFLOW__API__BASE_URL") or os.environ.get(AIRFLOW_URL)
    if named:
        return named.rstrip("/")
    folder = os.environ.get("AIRFLOW_HOME") or installation_paths().airflow_home
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(os.environ.get("AIRFLOW_CONFIG") or Path(folder) / "airflow.cfg")
    return settings.get("api", "base_url", fallback=None) or None


_DAY_S = 86400.0
STORE_URL_PATTERN = r"^((s3|gs|gcs|az|abfs|abfss)://[A-Za-z0-9]|file:///)[^?#\s\x00]*$"
"""Of a result store. Other schemes of fsspec fetch web pages, run commands over SSH or chain file systems."""


class EvidenceRules(Declared):
    """What the daily upkeep does with raw evidence. Numbers, documents and what a conclusion cites are kept for ever."""

    keep: Duration | None = Field(
        None, ge=_DAY_S, description="how long evidence that nothing cites is kept, at least 1d; for ever if left out"
    )
    read_every: Duration = Field(
        30 * _DAY_S,
        ge=_DAY_S,
        le=366 * _DAY_S,
        description="how often each file is read whole and held against its SHA-256, an equal share a day: 1d to 366d",
    )
    most_files: int = Field(1000, ge=1, le=100_000, description="files of one attempt; a result that lists more is quarantined")
    most_bytes: ByteSize = Field(
        8 * 2.0**30, description="size of all files of one attempt together, such as 8GiB; a result that lists more is quarantined"
    )
    stores: tuple[Annotated[str, Field(pattern=STORE_URL_PATTERN)], ...] = Field(
        (),
        description="further result stores that the archive's evidence may be read from, such as s3://theirs/results of imported campaigns",
    )


class RetentionRules(Declared):
    """For how long what can be made again, or says the same again, is kept. `null` keeps it for ever."""

    logs: Duration | None = Field(90 * _DAY_S, ge=_DAY_S, description="Airflow's log files: of tasks, of DAG files, of components")
    data_docs: Duration | None = Field(
        180 * _DAY_S, ge=_DAY_S, description="pages of a campaign's quality checks; clearing `validate` writes them again"
    )
    reports: Duration | None = Field(
        400 * _DAY_S, ge=_DAY_S, description="a campaign's report; `plumbline report CAMPAIGN` writes it again"
    )
    quarantine: Duration | None = Field(
        400 * _DAY_S, ge=_DAY_S, description="copies of documents in quarantine; the attempt's own file stays where it is"
    )
    snapshots: Duration | None = Field(
        90 * _DAY_S,
        ge=_DAY_S,
        description="environment checks that found what the checks before and after them found; changes stay for ever",
    )


class ExportTarget(Declared):
    """A place for copies of finished campaigns, such as another cloud's bucket."""

    to: str = Field(
        pattern=r"^(s3|gs|gcs|az|abfs|abfss)://.+|^file:///.+",
        description="where each campaign gets a folder, such as s3://bucket/exports or file:///mnt/exports",
    )
    connection: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]{1,200}$",
        description="Airflow connection with its credentials; the environment's if left out",
    )


class Upkeep(Declared):
    """The whole file. Without it evidence is kept for ever, nothing is exported, and the rest is kept as `KeepRules` says."""

    evidence: EvidenceRules = EvidenceRules()
    keep: RetentionRules = RetentionRules()
    export: ExportTarget | None = None


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE, _POSTGRESQL = "database or disk is full", "DiskFull"
_GIB = 2.0**30


def full_disk_message(error: BaseException | None) -> str | None:
    """What a person reads of an error that a full disk or an exhausted quota caused, anywhere in its chain; None for any other."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            where = f" ({error.filename})" if error.filename else ""
            return f"the disk is full, or a quota is used up{where}: {os.strerror(error.errno)}; free space and try again"
        if _SQLITE in str(error) or type(error).__name__ == _POSTGRESQL:
            return "the disk of the archive's database is full; free space and try again. What was recorded before is whole"
        error = error.__cause__ or error.__context__
    return None


def insufficient_space(folder: Path, needed: float) -> str | None:
    """Why `needed` bytes do not fit on the disk of a folder, which need not exist yet; None if they do."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free >= needed:
        return None
    return f"the disk of {folder} has {free / _GIB:.2f} GiB free and the trial needs {needed / _GIB:.2f} GiB; free space and run it again"
