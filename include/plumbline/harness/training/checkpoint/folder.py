"""The folder of a checkpoint: complete or absent, with a manifest that its files are verified against. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import re
import shutil
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

_READ_BYTES, _BLOCK_BYTES = 1 << 20, 64 << 20
_MAX_RESIDENT_SHARE = 0.01
"""Share of a file's pages that may stay in memory, as others may use them."""


@dataclass(frozen=True)
class FileDigest:
    bytes: int
    sha256: str
    """See `blocks_sha256`."""


def digest_file(path: Path, threads: int = 1) -> FileDigest:
    """Size and checksum of a file that was written. Read back for it: a checksum while writing would take longer than a fast disk."""
    return FileDigest(path.stat().st_size, blocks_sha256(path, threads))


def blocks_sha256(path: Path, threads: int) -> str:
    """SHA-256 (hex) over the SHA-256 of each block of a file: one checksum over all bytes would keep one core busy for longer than the disk."""
    starts, cores = range(0, path.stat().st_size, _BLOCK_BYTES), process_cores()
    with ThreadPoolExecutor(max(1, min(threads, len(starts))), "checksum", initializer=partial(_use_cores, cores)) as pool:
        return hashlib.sha256(b"".join(pool.map(partial(_block_sha256, path), starts))).hexdigest()


def _block_sha256(path: Path, start: int) -> bytes:
    summed, left = hashlib.sha256(), _BLOCK_BYTES
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while left and (piece := file.read(min(left, _READ_BYTES))):
            summed.update(piece)
            left -= len(piece)
    return summed.digest()


def process_cores() -> frozenset[int]:
    """Cores that any thread of this process may use: where OpenMP binds its threads, the calling one has a single core."""
    if sys.platform != "linux":
        return frozenset(range(os.cpu_count() or 1))
    cores: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            cores |= os.sched_getaffinity(int(thread.name))
    return frozenset(cores)


def _use_cores(cores: frozenset[int]) -> None:
    if sys.platform == "linux":
        os.sched_setaffinity(0, cores)


def sync_file(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def drop_from_page_cache(paths: Iterable[Path]) -> bool:
    """Evict these files from the page cache, so that they are read from the disk. Whether that worked, as far as the kernel reports.

    Needs no privilege for own files. A file system in memory keeps them, and so may others."""
    gone = True
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            gone &= _resident_share(handle) <= _MAX_RESIDENT_SHARE
        except (AttributeError, OSError):  # no such call on this system or for this file
            gone = False
        finally:
            os.close(handle)
    return gone


def _resident_share(handle: int) -> float:
    """Resident share of an open file, 0…1; OSError if unavailable."""
    size = os.fstat(handle).st_size
    if not size:
        return 0.0
    if sys.platform != "linux":
        raise OSError("only Linux reports which pages are in memory")
    with mmap.mmap(handle, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        try:
            failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        finally:
            del first  # the mapping cannot be closed while something points into it
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in pages) / len(pages)


_NAME_PATTERN = re.compile(r"step-(\d{8,})$")
_DRAFT_SUFFIX = ".part"
_MANIFEST = "manifest.json"


class CheckpointCorrupt(Exception):
    """A checkpoint does not hold what its manifest promises; the message says why."""


@dataclass(frozen=True)
class CheckpointManifest:
    """A checkpoint's files by name, and, of state that spans nodes, the part on this node."""

    step: int
    files: dict[str, FileDigest]
    part_of: str = "all"


def checkpoint_name(step: int) -> str:
    return f"step-{step:08d}"


def draft_path(folder: Path, step: int) -> Path:
    return folder / f"{checkpoint_name(step)}{_DRAFT_SUFFIX}"


def publish(draft: Path, final: Path, manifest: CheckpointManifest) -> None:
    """Give a draft whose files are synced its manifest and its name. OSError if the disk is full."""
    with (draft / _MANIFEST).open("wb") as raw:
        raw.write(json.dumps(asdict(manifest)).encode())
        sync_file(raw)
    sync_folder(draft)
    if final.exists():  # a resumed run passes the step again
        shutil.rmtree(final)
    draft.rename(final)
    sync_folder(final.parent)


def read_manifest(path: Path) -> CheckpointManifest:
    """The manifest of a checkpoint; CheckpointCorrupt if it has none that can be used, or one of another step."""
    try:
        fields: dict[str, Any] = json.loads((path / _MANIFEST).read_bytes())
        files = {str(name): FileDigest(int(part["bytes"]), str(part["sha256"])) for name, part in fields["files"].items()}
        manifest = CheckpointManifest(int(fields["step"]), files, str(fields["part_of"]))
    except OSError as error:
        raise CheckpointCorrupt(f"cannot be read ({error})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorrupt(f"has an unusable manifest ({error})") from error
    if manifest.step != parse_step(path):
        raise CheckpointCorrupt(f"is named after step {parse_step(path)} but holds step {manifest.step}")
    return manifest


def verify_size(path: Path, name: str, promised: FileDigest) -> None:
    """CheckpointCorrupt if a file of a checkpoint is not there or not as long as the manifest promises; takes no time."""
    try:
        size = (path / name).stat().st_size
    except OSError as error:
        raise CheckpointCorrupt(f"cannot be read ({error})") from error
    if size != promised.bytes:
        raise CheckpointCorrupt(f"{name} has {size} bytes; its manifest says {promised.bytes}")


def verify_file(path: Path, name: str, promised: FileDigest, threads: int = 1) -> None:
    """Read one file of a checkpoint; CheckpointCorrupt if it is not what the manifest promises."""
    verify_size(path, name, promised)
    try:
        if blocks_sha256(path / name, threads) != promised.sha256:
            raise CheckpointCorrupt(f"{name} differs from the SHA-256 in its manifest")
    except OSError as error:
        raise CheckpointCorrupt(f"cannot be read ({error})") from error


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the published checkpoints, newest first; whether they are valid is not known yet."""
    folders = [path for path in folder.iterdir() if _NAME_PATTERN.match(path.name)] if folder.is_dir() else []
    return sorted(map(parse_step, folders), reverse=True)


def parse_step(path: Path) -> int:
    match = _NAME_PATTERN.match(path.name)
    if match is None:
        raise ValueError(f"{path.name!r} is not a checkpoint's name; expected one such as {checkpoint_name(8)}")
    return int(match[1])


def prune(folder: Path, keep: int, retain: frozenset[int]) -> None:
    """Delete all but the newest `keep` and those in `retain`."""
    for step in checkpoint_steps(folder)[keep:]:
        if step not in retain:
            shutil.rmtree(folder / checkpoint_name(step))


def discard_drafts(folder: Path) -> None:
    """Delete drafts of killed processes. Only without writers in the folder."""
    for path in folder.glob(f"*{_DRAFT_SUFFIX}"):
        shutil.rmtree(path)
