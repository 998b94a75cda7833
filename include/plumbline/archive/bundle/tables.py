"""Rows of the archive's tables as Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import JSON, Date, Float, Integer, Table

from plumbline.archive.columns import UtcDateTime

Row = dict[str, Any]


def write(path: Path, table: Table, rows: Sequence[Row]) -> None:
    """One file with the rows' columns in the table's order; what is not a column of it is left out."""
    names = [column.name for column in table.columns if column.name in rows[0]]
    columns = [table.columns[name] for name in names]
    schema = pa.schema([(c.name, _type(c.type)) for c in columns])
    arrays = [[_out(c.type, row[c.name]) for row in rows] for c in columns]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(zip(names, arrays, strict=True)), schema=schema), path, compression="zstd")


def read(path: Path, table: Table) -> list[Row]:
    """The rows of a file, with the columns that this version's table has; none if there is no such file."""
    if not path.exists():
        return []
    rows: list[Row] = pq.read_table(path).to_pylist()
    known = {column.name: column.type for column in table.columns}
    return [{name: _in(known[name], value) for name, value in row.items() if name in known} for row in rows]


def _type(kind: Any) -> Any:
    if isinstance(kind, UtcDateTime):
        return pa.timestamp("us", tz="UTC")
    if isinstance(kind, Date):
        return pa.date32()
    if isinstance(kind, Integer):
        return pa.int64()
    return pa.float64() if isinstance(kind, Float) else pa.string()


def _out(kind: Any, value: Any) -> Any:
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(kind, JSON) and value is not None else value


def _in(kind: Any, value: Any) -> Any:
    return json.loads(value) if isinstance(kind, JSON) and value is not None else value
