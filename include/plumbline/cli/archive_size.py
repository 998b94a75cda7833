"""`plumbline archive size`: what grows, and how long each part is kept."""

from __future__ import annotations

from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, out, table
from plumbline.declarations import DeclarationError


def size(as_json: Json = False) -> None:
    """Show what the archive's tables, the result store, reports, logs and caches take, and how long each is kept."""
    from plumbline.orchestration.sizes import sizes

    with clear_errors(DeclarationError, OSError), open_archive() as archive:
        found = sizes(archive)

    def show() -> None:
        parts = table("What grows", "part", "where", "files", "bytes", "keep", right=("files", "bytes"))
        for part in found.parts:
            parts.add_row(part.part, part.where, f"{part.files:,}", _bytes(part.bytes), part.keep)
        out.print(parts)
        tables = table("Tables of the archive", "table", "rows", "bytes", right=("rows", "bytes"))
        for one in found.tables:
            tables.add_row(one.table, f"{one.rows:,}", _bytes(one.bytes))
        out.print(tables)

    emit(as_json, found, show)


def _bytes(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
