"""Quarantine in the result store: a copy of a document that cannot be trusted, and the reason."""

from __future__ import annotations

import hashlib

from plumbline.metrics.rows import Part
from plumbline.results.bounded_json import InvalidResult
from plumbline.results.store import ResultStore

QUARANTINE_FOLDER = "quarantine"
HEAD_BYTES = 2**16


class QuarantineNote(Part):
    """Why the object at `path` (relative to the store) is not used."""

    path: str
    sha256: str
    reason: str


def put(store: ResultStore, folder: str, file: str, reason: str, away: ResultStore | None = None) -> QuarantineNote:
    """Copy a file of an attempt's folder into quarantine. The same bytes again keep the first reason; other bytes get a name of their own.

    `away`: the store that the attempt's folder lies in, if it is another one.
    """
    entry = away or store
    try:
        data = entry.get(f"{folder}/{file}")
    except InvalidResult:
        data = entry.head(f"{folder}/{file}", HEAD_BYTES)
    sha256 = hashlib.sha256(data).hexdigest()
    known = read_note(store, folder, file)
    if known is not None and known.sha256 != sha256:
        file = f"{sha256[:12]}-{file}"
        known = read_note(store, folder, file)
    if known is not None:
        return known
    path = f"{QUARANTINE_FOLDER}/{folder}/{file}"
    store.put(path, data)
    note = QuarantineNote(path=path, sha256=sha256, reason=reason)
    store.put(f"{path}.reason.json", note.model_dump_json(indent=1).encode())  # last: a note without its bytes would be a dead end
    return note


def read_note(store: ResultStore, folder: str, file: str) -> QuarantineNote | None:
    """Why a file of an attempt's folder is in quarantine; None if it is not."""
    try:
        return QuarantineNote.model_validate_json(store.get(f"{QUARANTINE_FOLDER}/{folder}/{file}.reason.json"))
    except FileNotFoundError:
        return None
