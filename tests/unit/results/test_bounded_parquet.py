"""Parquet of others: a few kilobytes that stand for a hundred million rows are refused by their footer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.peak_memory import peak_mib

from plumbline.results import InvalidResult, bounded_parquet


def huge(path: Path, rows: int = 10**8) -> Path:
    """Rows without a value: the file has almost no bytes for them."""
    batch = pa.table({"phase": pa.nulls(10**7, pa.string()), "step_s": pa.nulls(10**7, pa.float64())})
    with pq.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        for _ in range(rows // batch.num_rows):
            writer.write_table(batch, row_group_size=batch.num_rows)
    return path


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return huge(tmp_path_factory.mktemp("parquet") / "steps.parquet")


def read(source: Path | bytes, **bounds: int) -> pa.Table:
    return bounded_parquet.read_table(
        source, "steps.parquet", columns=("phase", "step_s"), **({"most_rows": 1000, "most_bytes": 2**20} | bounds)
    )


@pytest.mark.fault("a Parquet file of 2 MB has 10^8 rows", ends="refused", keeps="the page, which names the file; 200 MiB are enough")
def test_a_hundred_million_rows(bomb: Path) -> None:
    assert bomb.stat().st_size < 2 * 2**20
    with pytest.raises(InvalidResult, match=r"^steps.parquet .*\b100,000,000 .*\b1,000$"):
        read(bomb.read_bytes())
    peak, said = peak_mib(
        "from pathlib import Path\nfrom plumbline.presentation.chart_evidence import MOST_ROWS, MOST_BYTES, STEP_COLUMNS\n"
        "from plumbline.results import InvalidResult, bounded_parquet",
        f"try: bounded_parquet.read_table(Path({str(bomb)!r}).read_bytes(), 'x', columns=('phase', 'step_s'),"
        " most_rows=MOST_ROWS['steps'], most_bytes=MOST_BYTES)\nexcept InvalidResult as error: print('refused', error)",
    )
    assert said.startswith("refused") and peak < 200


def test_what_unpacks_to_too_much(tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    pq.write_table(pa.table({"phase": ["x" * 2 * 10**6, "y"], "step_s": [0.1, None]}), path, compression="zstd")
    with pytest.raises(InvalidResult, match=r"^steps.parquet .*1\.9\d* MiB.*1"):
        read(path)
    assert read(path, most_bytes=2**23).num_rows == 2


@pytest.mark.parametrize("data", [b"", b"no parquet", b"PAR1" + b"\0" * 64 + b"PAR1"])
def test_what_is_no_parquet(data: bytes) -> None:
    with pytest.raises(InvalidResult, match=r"^steps.parquet .*Parquet"):
        read(data)


def test_columns_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"phase": ["a"], "other": [1]}), path)
    with pytest.raises(InvalidResult, match="step_s"):
        read(path)
    assert bounded_parquet.read_table(path, "x", columns=("phase", "step_s"), most_rows=1, most_bytes=999, whole=False).to_pylist() == [
        {"phase": "a"}
    ]
    pq.write_table(pa.table({"phase": pa.array([], pa.string()), "step_s": pa.array([], pa.float64())}), path)
    assert read(path).num_rows == 0
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere.parquet")
