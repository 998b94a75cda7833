"""gpuhunt's catalog of one cloud: the newest, one version for ever, or a folder of its files, each with its own date.

`GPUHUNT_CATALOG_DIR` names the folder (`aws.csv`, `gcp.csv`, … and, if it was kept, `version`): then nothing is downloaded.
"""

from __future__ import annotations

import csv
import hashlib
import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from plumbline.price_sources.base import NoPrice, PriceSourceDown

if TYPE_CHECKING:
    from gpuhunt import Catalog, CatalogItem

_DOWNLOAD_REMEDY = "check that this machine can download the catalog, or point GPUHUNT_CATALOG_DIR to a folder with it"
_VERSION = re.compile(r"(\d{8})(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True)
class CloudCatalog:
    """One cloud's entries. `observed_at`: the catalog's own date. `alike`: all clouds' entries of a GPU's name. `skipped`: its first unreadable line."""

    items: list[CatalogItem]
    version: str
    observed_at: datetime
    alike: Callable[[str], Iterable[CatalogItem]]
    skipped: str | None


def load_cloud(cloud: str, provider: str, pinned: str | None, at: datetime, timeout_s: float) -> CloudCatalog:
    """The catalog of a cloud, for a provider's price at `at` (UTC); `timeout_s` for each answer of the download.

    Raises PriceSourceDown without the package or the catalog, or if its date is in the future; NoPrice for a cloud that gpuhunt does not know.
    """

    def down(why: object, remedy: str) -> NoReturn:
        raise PriceSourceDown("gpuhunt", provider, str(why), remedy)

    try:
        import gpuhunt
    except ImportError as error:
        down(f"the package gpuhunt is not installed ({error})", 'pip install "plumbline[server]"')
    named = os.environ.get("GPUHUNT_CATALOG_DIR")
    folder = None if named is None else Path(named)
    remedy = _DOWNLOAD_REMEDY if folder is None else f"put gpuhunt's {cloud}.csv into {folder}, or unset GPUHUNT_CATALOG_DIR to download it"
    heard = _CatalogLog()
    written_at = None
    try:
        with _time_limit(timeout_s), heard.instead_of_the_log():
            if folder is not None:
                items, named_version = list(_file_items(folder / f"{cloud}.csv")), _version_of(folder, cloud)
                written_at = datetime.fromtimestamp((folder / f"{cloud}.csv").stat().st_mtime, timezone.utc)
                if pinned is not None and named_version != pinned:
                    down(
                        f"{folder} holds catalog {named_version}, declared is {pinned}",
                        "put that catalog there, with its name in `version`",
                    )
            else:
                catalog = gpuhunt.default_catalog() if pinned is None else load_version(pinned)
                items, named_version = catalog.query(provider=cloud), pinned or ""
    except (OSError, UnicodeDecodeError, csv.Error, gpuhunt.GPUHuntError) as error:
        down(heard.cause(cloud) or _with_cause(error), remedy)
    except ValueError as error:
        raise NoPrice("gpuhunt", provider, str(error), "name the cloud as gpuhunt does: cloud in price_sources") from error
    if not items:
        down(heard.cause(cloud) or f"the catalog of {cloud} holds no readable entry", remedy)
    if not named_version:
        loaded = catalog.catalog.get(cloud)
        named_version = loaded.version if loaded is not None else f"asked live, gpuhunt {version('gpuhunt')}"
    dated = _date_of(named_version)
    if dated is not None and dated - at > timedelta(days=1):
        down(f"catalog {named_version} is dated {dated.date()}, after {at.date()}", "correct `version`, or this machine's clock")

    def alike(gpu: str) -> Iterable[CatalogItem]:
        if folder is not None:
            with heard.instead_of_the_log():
                return [item for file in sorted(folder.glob("*.csv")) for item in _file_items(file, gpu)]
        every = chain(items, *(loaded.items for name, loaded in catalog.catalog.items() if name != cloud))
        return (item for item in every if item.gpu_name == gpu)

    return CloudCatalog(items, named_version, min(dated or written_at or at, at), alike, heard.cause(cloud))


def _file_items(file: Path, gpu: str | None = None) -> Iterator[CatalogItem]:
    """The entries of a cloud's file, of one GPU's name only if given: it is read here, so that a folder can hold any cloud."""
    from gpuhunt._internal import storage

    with file.open(encoding="utf-8-sig", newline="") as text:
        # An entry is one line; most lines of the other clouds' files are of other products.
        lines = text if gpu is None else (line for number, line in enumerate(text) if not number or f",{gpu}," in line)
        yield from (item for item in storage.load(lines, provider=file.stem) if gpu is None or item.gpu_name == gpu)


def _date_of(named_version: str) -> datetime | None:
    """The day of a version such as 20261121-2; its number keeps two of a day in order."""
    match = _VERSION.fullmatch(named_version)
    try:
        day = datetime.strptime(match[1], "%Y%m%d").replace(tzinfo=timezone.utc) if match else None
    except ValueError:
        return None
    return None if day is None or match is None else day + timedelta(seconds=min(int(match[2] or 0), 86399))


class _CatalogLog(logging.Handler):
    """Collects gpuhunt's log: a failed download logs a traceback for each cloud, including those that were not requested."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def cause(self, cloud: str) -> str | None:
        """The error of a log line about the cloud, else the line; None if there is none."""
        about = [r for r in self._records if r.levelno >= logging.WARNING and f" {cloud} catalog" in r.getMessage()]
        errors = [str(r.exc_info[1]) for r in about if r.exc_info]
        lines = [r.getMessage() for r in about]
        return f"the catalog of {cloud} could not be loaded: {errors[0]}" if errors else lines[0] if lines else None

    @contextmanager
    def instead_of_the_log(self) -> Iterator[None]:
        logger = logging.getLogger("gpuhunt")
        before = logger.propagate
        logger.addHandler(self)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = before


def _with_cause(error: Exception) -> str:
    return f"{error} ({error.__cause__})" if error.__cause__ is not None else str(error)


@cache  # a version never changes
def load_version(pinned: str) -> Catalog:
    """One version of every cloud's catalog, downloaded once."""
    from gpuhunt import Catalog

    catalog = Catalog(auto_reload=False)
    catalog.load(pinned)
    return catalog


def _version_of(folder: Path, cloud: str) -> str:
    """The version that the folder names, else a hash of the cloud's file."""
    version_file = folder / "version"
    named = version_file.read_text(encoding="utf-8-sig").strip() if version_file.is_file() else ""
    return named or f"sha256:{hashlib.sha256((folder / f'{cloud}.csv').read_bytes()).hexdigest()[:12]}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """gpuhunt downloads without a time limit: a server that never answers would hold the caller for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
