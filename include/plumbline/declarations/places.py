"""Where an installation keeps its things. Each place can be moved by one environment variable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Places:
    """`PLUMBLINE_HOME` moves everything; the others move one thing each."""

    home: Path
    config: Path
    results_url: str
    archive_url: str

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
    def airflow_home(self) -> Path:
        return self.home / "airflow"


def places() -> Places:
    """The places of this process's environment."""
    home = Path(os.environ.get("PLUMBLINE_HOME") or REPOSITORY / "var").resolve()
    return Places(
        home=home,
        config=Path(os.environ.get("PLUMBLINE_CONFIG") or REPOSITORY / "include" / "config").resolve(),
        results_url=os.environ.get("PLUMBLINE_RESULTS_URL") or (home / "results").as_uri(),
        archive_url=os.environ.get("PLUMBLINE_ARCHIVE_URL") or f"sqlite:///{home / 'archive.db'}",
    )
