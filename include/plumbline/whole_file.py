"""Files that readers see whole or not at all, and their hash."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """A draft beside `target` that takes its place when the block ends well, and is removed otherwise. `durable`: written to the disk before."""
    draft = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield draft
        if durable:
            with draft.open("rb") as written:
                os.fsync(written.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(target: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write a file, text in UTF-8; its folder is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, durable=durable) as draft:
        draft.write_bytes(content if isinstance(content, bytes) else content.encode())


def sha256_file(path: Path) -> str:
    """SHA-256 as hexadecimal digits."""
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**16):
            summed.update(piece)
    return summed.hexdigest()
