"""What grows: the archive's tables, the result store and the folders of the installation, each with how long it is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plumbline.archive.sizes import TableSize
from plumbline.declarations import load, places
from plumbline.launch import stores
from plumbline.orchestration.tidying import folder_bytes
from plumbline.results.quarantine import FOLDER

if TYPE_CHECKING:
    from plumbline.archive import Archive

_DAY = 86400.0
FOR_EVER = "for ever"


@dataclass(frozen=True)
class Part:
    """One part: where it is, its files and bytes (None where the database does not say), and how long it is kept, in words."""

    part: str
    where: str
    files: int
    bytes: int | None
    keep: str


@dataclass(frozen=True)
class Sizes:
    """All parts, and the archive table by table."""

    parts: tuple[Part, ...]
    tables: tuple[TableSize, ...]


def sizes(archive: Archive) -> Sizes:
    """Measure everything. DeclarationError if upkeep.yaml cannot be read; OSError if the store does not answer."""
    upkeep, here = load().upkeep, places()
    keep = upkeep.keep
    tables = tuple(archive.table_sizes())
    known = [table.bytes for table in tables if table.bytes is not None]
    address = archive.engine.url.render_as_string(hide_password=True)
    parts = [
        Part("tables", address, len(tables), sum(known) if known else None, f"{FOR_EVER}; repeated snapshots {_words(keep.snapshots)}")
    ]
    parts += _store(_words(upkeep.evidence.keep), _words(keep.quarantine))
    folders = (
        ("reports", here.reports, _words(keep.reports)),
        ("data_docs", here.data_docs, _words(keep.data_docs)),
        ("logs", here.airflow_home / "logs", _words(keep.logs)),
        ("cache", here.cache, "safe to delete"),
        ("work", here.work, "while a trial runs"),
    )
    parts += [Part(name, str(folder), *folder_bytes(folder), kept) for name, folder, kept in folders]
    return Sizes(tuple(parts), tables)


def _store(evidence: str, quarantine: str) -> list[Part]:
    home = stores.home()
    files, size = Counter[str](), Counter[str]()
    for path, length in home.objects():
        part = "quarantine" if path.startswith(f"{FOLDER}/") else "evidence" if "/evidence/" in path else "store"
        files[part] += 1
        size[part] += length
    kept = {"store": FOR_EVER, "evidence": evidence, "quarantine": quarantine}
    return [Part(name, home.url, files[name], size[name], kept[name]) for name in kept]


def _words(keep_s: float | None) -> str:
    return FOR_EVER if keep_s is None else f"{keep_s / _DAY:g}d"
