"""Addresses of files: `sqlite:///FILE` of a database, `file:///FOLDER` of a store. An address is percent-encoded, a path never is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

_FILE = "file://"


def database_url(file: Path) -> str:
    """The address of a SQLite file. Encodes only what must be: SQLAlchemy 2.0 (Python 3.10) decodes nothing."""
    return f"sqlite:///{str(file).replace('%', '%25').replace('?', '%3F')}"


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


def open_filesystem(url: str, options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """fsspec's client and the path of a file or folder."""
    import fsspec  # half a second, which most commands do not need

    path = local_path(url)
    if path is None:
        return fsspec.core.url_to_fs(url, **(options or {}))  # type: ignore[no-any-return]
    return fsspec.filesystem("file"), str(path)
