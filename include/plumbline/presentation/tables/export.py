"""All exported tables of a campaign, as data frames, CSV and Parquet. `python -m plumbline.presentation.tables.export` prints their columns for docs/export-tables.md."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.presentation.tables.rows import ROWS, Row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    import pandas as pd


ColumnType = Literal["text", "number", "count", "flag", "day"]


@dataclass(frozen=True)
class Column:
    """`unit_in` names the column that holds a number's unit; `unit`: its fixed unit. A number has one of the two."""

    name: str
    holds: ColumnType
    meaning: str
    unit_in: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Table:
    """A table and its columns, whose names are a contract."""

    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Conclusions], Iterable[Row]]


def _read_tables() -> dict[str, Table]:
    """The tables of `tables.toml`; KeyError for a shared column or rows that do not exist."""
    declared = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))
    shared = {column["name"]: column for column in declared["shared"]}
    return {
        name: Table(table["meaning"], tuple(Column(**(shared[c] if isinstance(c, str) else c)) for c in table["columns"]), ROWS[name])
        for name, table in declared["tables"].items()
    }


TABLES = _read_tables()
_DTYPES: dict[ColumnType, Any] = {"text": "string", "number": "Float64", "count": "Int64", "flag": "boolean", "day": "date32[pyarrow]"}


def campaign_tables(campaign: CampaignData, found: Conclusions | None = None) -> dict[str, pd.DataFrame]:
    """Every table of the campaign by name; one without rows has its columns all the same. `found`: what was concluded already.

    Numbers are in the unit that the row or the column names, unrounded; what is not known is missing.
    """
    concluded = conclude(campaign) if found is None else found
    simulated = {d.trial.provider.name for d in campaign.documents if d.simulated}
    simulated |= {name for name, provider in campaign.providers.items() if provider.simulated}
    return {name: data_frame(table, _marked(table.rows(concluded), simulated)) for name, table in TABLES.items()}


def _marked(rows: Iterable[Row], simulated: Collection[str]) -> Iterator[Row]:
    """The rows, those of a provider with whether it is one of the simulated."""
    for row in rows:
        if "provider" in row:
            row["simulated"] = row["provider"] in simulated
        yield row


def data_frame(table: Table, rows: Iterable[Row]) -> pd.DataFrame:
    """Rows with the table's columns and types; KeyError for a row that lacks one."""
    import pandas as pd

    listed = list(rows)
    return pd.DataFrame({c.name: pd.array([row[c.name] for row in listed], dtype=_DTYPES[c.holds]) for c in table.columns})


def describe_tables(names: Iterable[str]) -> str:
    """What these tables hold, column by column, in Markdown."""
    lines: list[str] = []
    for name in names:
        table = TABLES[name]
        rows = (f"| `{c.name}` | {c.holds} | {_unit(c)} | {c.meaning} |" for c in table.columns)
        lines += [f"## {name}", "", f"{table.meaning[:1].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | holds | unit | what it is |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _unit(column: Column) -> str:
    return f"in `{column.unit_in}`" if column.unit_in else column.unit or ""


TableFormat = Literal["csv", "parquet"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula, whatever the file says."""


def write_tables(made: Mapping[str, pd.DataFrame], folder: Path, forms: Sequence[TableFormat], written: datetime) -> tuple[Path, ...]:
    """Write each table as `<folder>/<name>.<form>` and what they hold as `README.md`; returns the tables' paths.

    Each file appears whole or not at all, and replaces the one of an earlier export; one of a form that is not asked for now is removed, for
    nothing would say that its prices are of another day. `written`: whose day's prices are in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / f"{name}.{form}" for name in made for form in TABLE_FORMATS if form not in forms):
        stale.unlink(missing_ok=True)
    paths = []
    for form in forms:
        for name, table in made.items():
            paths.append(folder / f"{name}.{form}")
            _replace(paths[-1], encode_table(table, form))
    note = f"# Tables\n\nWritten {written:%Y-%m-%d %H:%M} UTC ({', '.join(forms)}), at the prices of that day."
    note += " An empty cell is a number that is not known, never a zero.\n\n"
    _replace(folder / "README.md", f"{note}{describe_tables(made)}".encode())
    return tuple(paths)


def encode_table(table: pd.DataFrame, form: TableFormat) -> bytes:
    """The table as the bytes of a file; in CSV no text can begin a formula, a quote stands before it."""
    if form == "csv":
        return escape_formulas(table).to_csv(index=False, lineterminator="\r\n").encode()
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()


def escape_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The same table with a quote before each text that a spreadsheet would run. Numbers are never text, so -1.5 stays what it is."""
    safe = table.copy()
    for name in safe.columns[safe.dtypes == "string"]:
        # A column of hundreds of thousands of rows has a few hundred texts.
        if risky := {text: f"'{text}" for text in safe[name].dropna().unique() if text.startswith(_FORMULA)}:
            safe[name] = safe[name].replace(risky)
    return safe


def _replace(target: Path, content: bytes) -> None:
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.stdout.write(describe_tables(TABLES))
