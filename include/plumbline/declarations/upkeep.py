"""`include/config/upkeep.yaml`: how long evidence and everything else that grows is kept, and where finished campaigns are exported to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.units import ByteSize, Duration

_DAY = 86400.0
ADDRESS = r"^((s3|gs|gcs|az|abfs|abfss)://[A-Za-z0-9]|file:///)[^?#\s\x00]*$"
"""Of a result store. Other schemes of fsspec fetch web pages, run commands over SSH or chain file systems."""


class EvidenceRules(Declared):
    """What the daily upkeep does with raw evidence. Numbers, documents and what a conclusion cites are kept for ever."""

    keep: Duration | None = Field(
        None, ge=_DAY, description="how long evidence that nothing cites is kept, at least 1d; for ever if left out"
    )
    read_every: Duration = Field(
        30 * _DAY,
        ge=_DAY,
        le=366 * _DAY,
        description="how often each file is read whole and held against its SHA-256, an equal share a day: 1d to 366d",
    )
    most_files: int = Field(1000, ge=1, le=100_000, description="files of one attempt; a result that lists more is quarantined")
    most_bytes: ByteSize = Field(
        8 * 2.0**30, description="size of all files of one attempt together, such as 8GiB; a result that lists more is quarantined"
    )
    stores: tuple[Annotated[str, Field(pattern=ADDRESS)], ...] = Field(
        (),
        description="further result stores that the archive's evidence may be read from, such as s3://theirs/results of imported campaigns",
    )


class KeepRules(Declared):
    """For how long what can be made again, or says the same again, is kept. `null` keeps it for ever."""

    logs: Duration | None = Field(90 * _DAY, ge=_DAY, description="Airflow's log files: of tasks, of DAG files, of components")
    data_docs: Duration | None = Field(
        180 * _DAY, ge=_DAY, description="pages of a campaign's quality checks; clearing `validate` writes them again"
    )
    reports: Duration | None = Field(400 * _DAY, ge=_DAY, description="a campaign's report; `plumbline report CAMPAIGN` writes it again")
    quarantine: Duration | None = Field(
        400 * _DAY, ge=_DAY, description="copies of documents in quarantine; the attempt's own file stays where it is"
    )
    snapshots: Duration | None = Field(
        90 * _DAY, ge=_DAY, description="environment checks that found what the checks before and after them found; changes stay for ever"
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
    keep: KeepRules = KeepRules()
    export: ExportTarget | None = None
