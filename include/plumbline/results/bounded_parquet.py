"""Read Parquet from untrusted files with bounds on rows and unpacked bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.results.bounded_json import InvalidResult, format_size

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MAX_FOOTER = 2**20


def read_table(
    source: Path | bytes, where: str, *, columns: Sequence[str], most_rows: int, most_bytes: int, whole: bool = True
) -> pa.Table:
    """These columns of a file; InvalidResult, naming `where` it lies, if it is not Parquet or exceeds a bound.

    Rows and unpacked bytes are read from the footer and enforced on the batches. Without `whole`, absent columns are skipped."""
    import pyarrow as pa

    batches = list(read_batches(source, where, columns=columns, most_rows=most_rows, most_bytes=most_bytes, whole=whole))
    return pa.Table.from_batches(batches[1:], batches[0].schema)


def read_batches(
    source: Path | bytes, where: str, *, columns: Sequence[str], most_rows: int, most_bytes: int, whole: bool = True
) -> Iterator[pa.RecordBatch]:
    """The columns of `read_table` in batches, the first one empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(
            BytesIO(source) if isinstance(source, bytes) else source,
            thrift_string_size_limit=_MAX_FOOTER,
            thrift_container_size_limit=_MAX_FOOTER,
        )
        with file:
            wanted_columns, rows = _checked(file, where, columns, most_rows, most_bytes, whole), 0
            empty = file.schema_arrow.empty_table().select(wanted_columns)
            yield pa.RecordBatch.from_arrays([pa.array([], field.type) for field in empty.schema], schema=empty.schema)
            for batch in file.iter_batches(columns=wanted_columns):
                rows += batch.num_rows
                if rows > most_rows:
                    raise InvalidResult(f"{where} has more rows than its footer says; expected at most {most_rows:,}")
                yield batch.select(wanted_columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidResult(f"{where} cannot be read as Parquet: {' '.join(str(error).split())}") from error


def _checked(file: pq.ParquetFile, where: str, columns: Sequence[str], most_rows: int, most_bytes: int, whole: bool) -> list[str]:
    footer, names = file.metadata, file.schema_arrow.names
    if whole and (absent := [name for name in columns if name not in names]):
        raise InvalidResult(f"{where} has no column {', '.join(absent)}; expected {', '.join(columns)}")
    if footer.num_rows > most_rows:
        raise InvalidResult(f"{where} has {footer.num_rows:,} rows; expected at most {most_rows:,}")
    wanted_columns = [name for name in columns if name in names]
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    chunks = (group.column(i) for group in groups for i in range(group.num_columns))
    unpacked = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted_columns)
    if unpacked > most_bytes:
        raise InvalidResult(f"{where} unpacks to {format_size(unpacked)}; expected at most {format_size(most_bytes)}")
    return wanted_columns
