"""Addresses of files: `sqlite:///FILE` of a database, `file:///FOLDER` of a store. An address is percent-encoded, a path never is.

Earlier versions (up to November 2026) encoded the address of the store and read it letter by letter, so that the results of the home
`my home` lie in `my%20home`; they wrote the address of the database as it is, and SQLAlchemy decoded it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

_FILE = "file://"
_OF_A_HOME = ("airflow", "archive.db")


def database_url(file: Path) -> str:
    """The address of a SQLite file. Encodes only what must be: SQLAlchemy 2.0 (Python 3.10) decodes nothing."""
    return f"sqlite:///{str(file).replace('%', '%25').replace('?', '%3F')}"


def earlier_database(file: Path) -> Path | None:
    """The file that earlier versions used in the place of `file`, if they used another one and it exists."""
    earlier = Path(unquote(str(file).partition("?")[0]))
    return earlier if earlier != file and earlier.is_file() else None


def store_url(folder: Path) -> str:
    """The address of an absolute folder as a store."""
    return folder.as_uri()


def local_path(url: str) -> Path | None:
    """The path of a `file:///` address, whether it is encoded or not; None for another one."""
    return Path(os.fsdecode(unquote_to_bytes(url.removeprefix(_FILE)))) if url.startswith(f"{_FILE}/") else None


def canonical(url: str) -> str:
    """The one spelling of an address: two spellings of a folder are the same store."""
    path = local_path(url)
    return url.rstrip("/") if path is None else store_url(path)


def path_below(address: str, store: str) -> str | None:
    """The path of what lies at `address`, relative to the store; empty for the store itself, None outside of it."""
    whole, below = canonical(address), canonical(store)
    if not f"{whole}/".startswith(f"{below}/"):
        return None
    path = whole[len(below) + 1 :]
    return path if local_path(whole) is None else unquote(path)


def earlier_store(url: str) -> Path | None:
    """The folder that earlier versions used for a store, if it is another one, exists, and is not in the home of another installation."""
    earlier = _earlier_path(url)
    homes = [folder for folder in earlier.parents if "%" in str(folder)] if earlier else []
    return None if any((home / name).exists() for home in homes for name in _OF_A_HOME) else earlier


def _earlier_path(url: str) -> Path | None:
    path, earlier = local_path(url), Path(url.removeprefix(_FILE))
    return earlier if path not in (None, earlier) and earlier.exists() else None


def open_filesystem(url: str, options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """fsspec's client and the path of a file or folder that is read; of a `file:///` address, also one that only earlier versions find there."""
    import fsspec  # half a second, which most commands do not need

    path = local_path(url)
    if path is None:
        return fsspec.core.url_to_fs(url, **(options or {}))  # type: ignore[no-any-return]
    return fsspec.filesystem("file"), str(path if path.exists() else _earlier_path(url) or path)
