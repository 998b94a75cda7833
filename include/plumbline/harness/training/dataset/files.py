"""A team's own token ids: a file that is where it is, or one that is fetched once; checked before anything is trained on it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from plumbline.harness.measurement import TrialFailed
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.dataset.generated import sha256_of

if TYPE_CHECKING:
    from plumbline.declarations.training import TokenFileData

_READ = 1 << 22


def prepare(cache: Path, data: TokenFileData, *, vocabulary: int) -> DataFile:
    """The file, if it is the one that was declared and a model of this vocabulary can read it.

    A path is read where it is; a URL is fetched below `cache`, unless it is there. TrialFailed: bad_declaration if the file is another
    one than declared, harness_error if it cannot be read here.
    """
    dtype = f"<u{data.width}"
    if "://" in data.url and not data.url.startswith("file://"):
        path = cache / "training-data" / f"{data.sha256}.tokens"
        if not path.is_file() or sha256_of(path) != data.sha256:
            _fetch(data, path)
    else:
        path = Path(data.url.removeprefix("file://"))
    try:
        with path.open("rb") as file:
            _check(data, file, path, vocabulary)
    except FileNotFoundError as error:
        raise TrialFailed(
            "bad_declaration", f"data.url {data.url}: there is no such file here; expected one that every node can read"
        ) from error
    except OSError as error:
        raise TrialFailed("harness_error", f"data.url {data.url} cannot be read: {error.strerror or error}") from error
    return DataFile(path, dtype, data.tokens, data.sha256)


def _check(data: TokenFileData, file: BinaryIO, path: Path, vocabulary: int) -> None:
    size, expected = os.fstat(file.fileno()).st_size, data.tokens * data.width
    if size != expected:
        raise TrialFailed(
            "bad_declaration",
            f"data.url {data.url} has {size} bytes; expected data.tokens × data.width = {data.tokens} × {data.width} = {expected}",
        )
    summed, at, seen = hashlib.sha256(), 0, 0
    beyond: tuple[int, int] | None = None
    while piece := file.read(_READ):
        summed.update(piece)
        ids = np.frombuffer(piece, dtype=f"<u{data.width}")
        seen = max(seen, int(ids.max()))
        if seen >= vocabulary and beyond is None:
            first = int(np.argmax(ids >= vocabulary))
            beyond = (at + first, int(ids[first]))
        at += ids.size
    if summed.hexdigest() != data.sha256:
        raise TrialFailed(
            "bad_declaration",
            f"data.sha256 is {data.sha256}, but {path} has {summed.hexdigest()}; expected the file that the series began with, or a new version of the workload",
        )
    if beyond is not None:
        raise TrialFailed(
            "bad_declaration",
            f"data.url {data.url}: token {beyond[0]} is {beyond[1]}; expected ids below the model's vocabulary {vocabulary}, {data.width} bytes each",
        )


def _fetch(data: TokenFileData, path: Path) -> None:
    import fsspec

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    expected = data.tokens * data.width
    try:
        with draft.open("wb") as file:
            # Whatever a filesystem of fsspec raises (each has exceptions of its own) means that the file cannot be had.
            try:
                with fsspec.open(data.url, "rb") as remote:
                    while file.tell() <= expected and (piece := cast(bytes, remote.read(_READ))):
                        file.write(piece)
            except FileNotFoundError as error:
                raise TrialFailed("bad_declaration", f"data.url {data.url}: there is no such file") from error
            except Exception as error:
                raise TrialFailed(
                    "harness_error",
                    f"data.url {data.url} cannot be fetched: {type(error).__name__}: {error}; "
                    "expected a URL of fsspec that this node may read, and the package of its protocol",
                ) from error
            file.flush()
            os.fsync(file.fileno())
        if draft.stat().st_size == expected:
            draft.replace(path)
            return
        size = draft.stat().st_size
        more = " or more" if size > expected else ""
        raise TrialFailed(
            "bad_declaration",
            f"data.url {data.url} has {size} bytes{more}; expected data.tokens × data.width = {data.tokens} × {data.width} = {expected}",
        )
    finally:
        draft.unlink(missing_ok=True)
