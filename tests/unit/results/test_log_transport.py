"""A result that is printed is read back as it was; a block that is cut, altered or too large is refused."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from plumbline.results import Evidence, log_transport
from plumbline.results.log_transport import InvalidBlock


def a_file(folder: Path, name: str, data: bytes) -> tuple[Evidence, Path]:
    path = folder / name
    path.write_bytes(data)
    return Evidence(kind="steps", uri=f"evidence/{name}", sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)), path


def printed(archive: bytes) -> bytes:
    return f"{log_transport.MARK} 1/1 {base64.b64encode(archive).decode()}".encode()


def zipped(files: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_what_is_printed_is_read_back_among_other_lines(tmp_path: Path) -> None:
    data = os.urandom(50_000)
    lines = list(log_transport.encode_lines(b"{}", [a_file(tmp_path, "steps.parquet", data)]))
    assert len(lines) > 2 and all(map(log_transport.is_block_line, lines))
    log = "\n".join(["== pod-0", "measuring", *lines, "bye", "== pod-1", "hello"]).encode()
    assert log_transport.decode(log) == {"result.json": b"{}", "evidence/steps.parquet": data}


def test_the_newest_block_counts() -> None:
    log = "\n".join([*log_transport.encode_lines(b"1", ()), *log_transport.encode_lines(b"2", ())]).encode()
    assert log_transport.decode(log) == {"result.json": b"2"}


def test_a_log_without_a_block_holds_none() -> None:
    assert log_transport.decode(b"measuring\nplumbline-result is a word here\n") is None


@pytest.mark.fault("a printed result is cut short, altered or a bomb", ends="refused", keeps="the log in quarantine")
@pytest.mark.parametrize("harm", ["cut", "altered", "bomb", "unbounded packing", "nameless"])
def test_a_block_that_cannot_be_used_is_refused(tmp_path: Path, harm: str) -> None:
    lines = [line.encode() for line in log_transport.encode_lines(b"{}", [a_file(tmp_path, "steps.parquet", os.urandom(50_000))])]
    log = {
        "cut": b"\n".join(lines[:-1]),
        "altered": b"\n".join([lines[0].replace(lines[0][60:64], b"AAAA"), *lines[1:]]),
        "bomb": printed(zipped({"result.json": b"{}", "evidence/zeros": bytes(129 * 2**20)})),
        "unbounded packing": printed(zipped({"result.json": b"{}"}, zipfile.ZIP_BZIP2)),
        "nameless": printed(zipped({"evidence/x": b"x"})),
    }[harm]
    with pytest.raises(InvalidBlock):
        log_transport.decode(log)


@pytest.mark.fault("a printed result states a smaller size than it has", ends="refused", keeps="the collector's memory")
def test_a_bomb_that_lies_about_its_size_takes_no_memory() -> None:
    size = 256 * 2**20
    packed = bytearray(zipped({"result.json": bytes(size)}))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # the file's own header, and the directory's
        at = packed.index(mark) + offset
        assert packed[at : at + 4] == size.to_bytes(4, "little")
        packed[at : at + 4] = (100).to_bytes(4, "little")
    log = printed(bytes(packed))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBlock, match="cannot be read"):
            log_transport.decode(log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 32


def test_evidence_that_does_not_fit_is_left_out_smallest_first(tmp_path: Path) -> None:
    large, small = a_file(tmp_path, "large.bin", os.urandom(log_transport.MAX_ARCHIVE_BYTES)), a_file(tmp_path, "small.bin", b"x" * 100)
    assert log_transport.select_evidence([large, small]) == [small]
    assert log_transport.select_evidence([small]) == [small]
