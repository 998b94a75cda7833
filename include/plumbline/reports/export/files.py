"""Exported tables as files: CSV for spreadsheets, Parquet for programs, and a README that says what each column holds."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plumbline.reports.export.tables import described

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["csv", "parquet"]
FORMS: tuple[Form, ...] = ("csv", "parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula, whatever the file says."""


def write_tables(made: Mapping[str, pd.DataFrame], folder: Path, forms: Sequence[Form], written: datetime) -> tuple[Path, ...]:
    """Write each table as `<folder>/<name>.<form>` and what they hold as `README.md`; returns the tables' paths.

    Each file appears whole or not at all, and replaces the one of an earlier export; one of a form that is not asked for now is removed, for
    nothing would say that its prices are of another day. `written`: whose day's prices are in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / f"{name}.{form}" for name in made for form in FORMS if form not in forms):
        stale.unlink(missing_ok=True)
    paths = []
    for form in forms:
        for name, table in made.items():
            paths.append(folder / f"{name}.{form}")
            _replace(paths[-1], encoded(table, form))
    note = f"# Tables\n\nWritten {written:%Y-%m-%d %H:%M} UTC ({', '.join(forms)}), at the prices of that day."
    note += " An empty cell is a number that is not known, never a zero.\n\n"
    _replace(folder / "README.md", f"{note}{described(made)}".encode())
    return tuple(paths)


def encoded(table: pd.DataFrame, form: Form) -> bytes:
    """The table as the bytes of a file; in CSV no text can begin a formula, a quote stands before it."""
    if form == "csv":
        return defused(table).to_csv(index=False, lineterminator="\r\n").encode()
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()


def defused(table: pd.DataFrame) -> pd.DataFrame:
    """The same table with a quote before each text that a spreadsheet would run. Numbers are never text, so -1.5 stays what it is."""
    safe = table.copy()
    for name in safe.columns[safe.dtypes == "string"]:
        safe[name] = safe[name].mask(safe[name].str.startswith(_FORMULA, na=False), "'" + safe[name])
    return safe


def _replace(target: Path, content: bytes) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
