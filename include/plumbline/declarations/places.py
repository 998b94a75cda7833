"""Where an installation keeps its things. Each place can be moved by one environment variable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
def moved_home(home: Path, config: Path | None = None) -> Iterator[None]:
    """Everything that an installation keeps is kept below `home` for a while, in this process and in those that it starts.

    With `config`, what is declared there takes the place of the installation's declarations.
    """
    names: dict[str, str | None] = {"PLUMBLINE_HOME": str(home), "PLUMBLINE_RESULTS_URL": None, "PLUMBLINE_ARCHIVE_URL": None}
    if config is not None:
        names["PLUMBLINE_CONFIG"] = str(config)
    before = {name: os.environ.get(name) for name in names}
    _set(names)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def places() -> Places:
    """The places of this process's environment."""
    home = Path(os.environ.get("PLUMBLINE_HOME") or REPOSITORY / "var").resolve()
    return Places(
        home=home,
        config=Path(os.environ.get("PLUMBLINE_CONFIG") or REPOSITORY / "include" / "config").resolve(),
        results_url=os.environ.get("PLUMBLINE_RESULTS_URL") or (home / "results").as_uri(),
        archive_url=os.environ.get("PLUMBLINE_ARCHIVE_URL") or f"sqlite:///{home / 'archive.db'}",
    )
