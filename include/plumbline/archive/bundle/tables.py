"""Rows of the archive's tables as Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import JSON, BigInteger, Column, Date, Float, Integer, Table

from plumbline.archive.columns import UtcDateTime
from plumbline.results import BadResult, parquet, reading

Row = dict[str, Any]
MOST_ROWS = 200_000
"""Of one table that becomes rows in memory, at some half a kilobyte each."""
MOST_BYTES = 64 * 2**20
_MOST_NUMBERS = 20_000_000
"""Rows of a table that is read a batch at a time."""


def write(path: Path, table: Table, rows: Sequence[Row]) -> None:
    """One file with the rows' columns in the table's order; what is not a column of it is left out."""
    names = [column.name for column in table.columns if column.name in rows[0]]
    columns = [table.columns[name] for name in names]
    schema = pa.schema([(c.name, _type(c.type)) for c in columns])
    arrays = [[_out(c.type, row[c.name]) for row in rows] for c in columns]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(zip(names, arrays, strict=True)), schema=schema), path, compression="zstd")


def read(path: Path, table: Table) -> list[Row]:
    """The rows of a file, with the columns that this version's table has; none if there is no such file.

    BadResult, naming file, column and what is expected, for a file that exceeds a bound or holds what the column cannot.
    """
    if not path.exists():
        return []
    where, known = str(path), {column.name: column for column in table.columns}
    found = parquet.table(path, where, columns=list(known), most_rows=MOST_ROWS, most_bytes=MOST_BYTES, whole=False)
    for field in found.schema:
        if field.type != (expected := _type(known[field.name].type)):
            raise BadResult(f"{where}: {field.name} is {field.type}; expected {expected}")
    absent = [name for name in known if name not in found.schema.names]
    # Tables that number their rows for themselves travel without `id`, but for trials, by whose number other tables name them.
    if lacking := [n for n in absent if not known[n].nullable and (n != "id" or table.name == "trials")]:
        raise BadResult(f"{where} has no column {', '.join(lacking)}; expected the columns of {table.name}")
    blank = dict.fromkeys(name for name in absent if name != "id")
    rows: list[Row] = [{**blank, **row} for row in found.to_pylist()]
    return [{name: _in(known[name], value, where) for name, value in row.items()} for row in rows]


def keys(path: Path, metrics: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """trial_pk, phase, metric and statistic of the rows of `metrics.parquet` of these metrics."""
    columns = ("trial_pk", "phase", "metric", "statistic")
    for batch in parquet.batches(path, str(path), columns=columns, most_rows=_MOST_NUMBERS, most_bytes=32 * MOST_BYTES):
        chosen = pa.compute.is_in(batch["metric"], value_set=pa.array(metrics, batch.schema.field("metric").type))
        for row in batch.filter(chosen).to_pylist():
            yield row["trial_pk"], row["phase"], row["metric"], row["statistic"]


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


def _in(column: Column[Any], value: Any, where: str) -> Any:
    if value is None:
        if not column.nullable:
            raise BadResult(f"{where}: {column.name} is null; expected a value")
        return None
    if isinstance(column.type, JSON):
        return reading.json_value(value.encode(), f"{where}: {column.name}")
    if isinstance(value, str) and "\0" in value:
        raise BadResult(f"{where}: {column.name} holds a NUL character; expected text without one")
    if isinstance(column.type, Integer) and not isinstance(column.type, BigInteger) and not -(2**31) <= value < 2**31:
        raise BadResult(f"{where}: {column.name} is {value}; expected an integer of 32 bits")
    return value
