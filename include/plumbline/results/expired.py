"""Evidence that was kept as long as it was declared to be: beside an attempt's document, `expired.json` says what went, when and why.

Who reads a store without the archive (collect, a report, a correction) learns from it that a file is not missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, BaseModel, ConfigDict

if TYPE_CHECKING:
    from plumbline.results.store import ResultStore

FILE = "expired.json"


class Expired(BaseModel):
    """`files`: relative to the attempt's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...]
    expired_at: AwareDatetime
    rule: str


def put(store: ResultStore, folder: str, files: Sequence[str], at: datetime, rule: str) -> None:
    """Say that these files of an attempt's folder are kept no longer; what was said of others before stays said."""
    before = note(store, folder)
    said = tuple(sorted({*files, *(before.files if before else ())}))
    store.put(_path(folder), Expired(files=said, expired_at=at, rule=rule).model_dump_json(indent=1).encode())


def note(store: ResultStore, folder: str) -> Expired | None:
    """What of an attempt's folder is kept no longer; None if nothing is, or if what is written there does not say it."""
    try:
        return Expired.model_validate_json(store.get(_path(folder)))
    except (FileNotFoundError, ValueError):  # also what is too large or no JSON
        return None


def _path(folder: str) -> str:
    return f"{folder}/{FILE}" if folder else FILE
