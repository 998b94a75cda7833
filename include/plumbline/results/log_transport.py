"""A result document and its evidence as marked lines of a trial's log, for when the result store is unreachable."""

from __future__ import annotations

import base64
import binascii
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from plumbline.results.document import Evidence

MARK = "plumbline-result"
MAX_ARCHIVE_BYTES = 4 * 2**20
"""Most bytes of the packed result. A kubelet rotates a container's log at 10 MiB and returns its newest file only."""
MAX_LOG_BYTES = 33 * 2**20
"""Most bytes of a log that is searched for a block: a launcher keeps 32 MiB and a line about the rest."""
_MAX_UNPACKED_BYTES = 128 * 2**20
_WIDTH = 8192
_LINE = re.compile(rb"plumbline-result (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]+)")
_DOCUMENT_BYTES = MAX_ARCHIVE_BYTES // 4
"""Room that evidence leaves for the document."""


class InvalidBlock(ValueError):
    """A log holds a block that cannot be used: cut short, altered or larger than allowed."""


def select_evidence(files: Iterable[tuple[Evidence, Path]]) -> list[tuple[Evidence, Path]]:
    """The evidence that fits into a block beside its document; the smallest files first, in the given order."""
    files, left, fits = list(files), MAX_ARCHIVE_BYTES - _DOCUMENT_BYTES, set()
    for item, path in sorted(files, key=lambda each: each[0].bytes):
        size = len(zlib.compress(path.read_bytes())) if item.bytes <= _MAX_UNPACKED_BYTES // 2 else left + 1
        if size <= left:
            left -= size
            fits.add(item.uri)
    return [each for each in files if each[0].uri in fits]


def encode_lines(document: bytes, files: Iterable[tuple[Evidence, Path]]) -> Iterator[str]:
    """The block's lines, without line ends. ValueError if it would be larger than MAX_ARCHIVE_BYTES."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("result.json", document)
        for item, path in files:
            archive.write(path, item.uri)
    if buffer.tell() > MAX_ARCHIVE_BYTES:
        raise ValueError(f"the document is {len(document)} bytes; expected one that fits into {MAX_ARCHIVE_BYTES} compressed bytes")
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    parts = range(0, len(text), _WIDTH)
    for number, start in enumerate(parts, 1):
        yield f"{MARK} {number}/{len(parts)} {text[start : start + _WIDTH]}"


def is_block_line(line: str) -> bool:
    return line.startswith(f"{MARK} ")


def decode(log: bytes) -> Mapping[str, bytes] | None:
    """The files of the newest block in a log by their paths, "result.json" among them; None without a block. InvalidBlock if it is unusable."""
    parts: dict[int, bytes] = {}
    count = 0
    for number, total, data in (match.groups() for line in log.splitlines() if (match := _LINE.fullmatch(line))):
        if int(number) == 1:
            parts, count = {}, int(total)
        parts[int(number)] = data
    if not parts:
        return None
    if sorted(parts) != list(range(1, count + 1)):
        raise InvalidBlock(f"the result in the log is cut short: {len(parts)} of {count} parts")
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(b"".join(parts[n] for n in sorted(parts)), validate=True))) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > _MAX_UNPACKED_BYTES:
                raise InvalidBlock(f"the result in the log unpacks to {size} bytes; expected at most {_MAX_UNPACKED_BYTES}")
            if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in archive.infolist()):
                raise InvalidBlock("the result in the log is packed in an unknown way; expected stored or deflated files")
            files = {member.filename: _unpacked(archive, member) for member in archive.infolist()}
    except (binascii.Error, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidBlock(f"the result in the log cannot be read: {error}") from error
    if "result.json" not in files:
        raise InvalidBlock("the result in the log has no result.json")
    return files


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    # By its size: reading to the end inflates all that is packed, up to 2 GiB, and only then compares it with the size.
    with archive.open(member) as file:
        return file.read(member.file_size)
