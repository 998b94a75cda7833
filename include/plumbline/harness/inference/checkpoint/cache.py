"""The cache of fetched checkpoints: one folder each, whole or absent, shared by trials that run at the same time.

<cache>/<key>/files/          the checkpoint
        <key>/manifest.json   its files with SHA-256; `stamps.json`: when each file last changed
        <key>.partial/        a download that has not ended; the next one continues it
        <key>.lock            one trial downloads, others wait
        <key>.entry           of a URL without a declared manifest: the key of the entry that its version of the files became
        manifests/<sha>.json  every manifest that was ever seen here: names the file if another one comes
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from plumbline.declarations import digest, installation
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint, HubCheckpoint, UrlCheckpoint
from plumbline.harness.inference.checkpoint.contents import BrokenCheckpoint, Files, Manifest, ManifestFile, hash_file
from plumbline.harness.inference.checkpoint.sources import LocalFiles, Source, source_of
from plumbline.metrics.formatting import format_bytes
from plumbline.results import Scalar
from plumbline.whole_file import write_whole

Note = Callable[[str], None]
_ENTRY = re.compile(r"hub--[\w.-]+--[0-9a-f]{40}|url--[0-9a-f]{40}")
"""Names of entries. Nothing else is deleted: a cache can be declared where other files lie, and others can write to a shared one."""


@dataclass(frozen=True)
class Cached:
    """`source`: without credentials. `state` cold: the files were downloaded now, `downloaded_bytes` in `seconds`; warm: the cache had them;
    local: the declared folder itself."""

    folder: Path
    manifest: Manifest
    source: str
    state: Literal["cold", "warm", "local"]
    downloaded_bytes: int = 0
    seconds: float = 0.0

    def facts(self, field: str) -> dict[str, Scalar]:
        return {
            f"{field}.source": self.source,
            f"{field}.manifest": self.manifest.sha256,
            f"{field}.bytes": self.manifest.bytes,
            f"{field}.cache": self.state,
        }


class NoSpace(OSError):
    """The cache's disk is too small."""


Credentials = tuple[str | None, Mapping[str, object] | None]
"""The hub's token, and options of fsspec's client; None: what the environment has."""


def files_of(
    model: Checkpoint, cache: Path, mirror: str | None, credentials: Credentials, note: Note, check: Callable[[Files], object]
) -> Cached:
    """A declared checkpoint's files on this machine. `check` may raise what is wrong with their names and headers, before anything is
    downloaded. Raises as `remote`."""
    if isinstance(model, FolderCheckpoint):
        check(LocalFiles(existing(model)))
        return local(model, cache, note)
    place = source_of(model, mirror, *credentials)
    entry = remote(model, place, cache, note, before=lambda: check(place))
    check(LocalFiles(entry.folder))
    return entry


def remote(model: Checkpoint, source: Source, cache: Path, note: Note, before: Callable[[], object] = lambda: None) -> Cached:
    """The checkpoint from the cache, else from its source; `before` is called before a download. Raises NoSpace, BrokenCheckpoint and what the source raises."""
    cache.mkdir(parents=True, exist_ok=True)
    key = _key(model, source)
    partial, pointer = cache / f"{key}.partial", cache / f"{key}.entry"
    with _locked(cache / f"{key}.lock", note):
        _remove_links(cache / key, partial)
        named = pointer.read_text(encoding="utf-8", errors="replace") if pointer.is_file() else key
        entry = cache / (named if _ENTRY.fullmatch(named) else key)
        _remove_links(entry)
        if (manifest := _intact(entry, partial, note)) is not None:
            return Cached(entry / "files", manifest, source.name, "warm")
        before()
        downloaded = download(source, partial, note)
        try:
            verify(model, downloaded.manifest, cache)
        except BrokenCheckpoint:
            _remove(partial)  # the next try must not go on with files of another version
            raise
        if isinstance(model, UrlCheckpoint) and model.manifest is None:
            entry = cache / _url_key(source, downloaded.manifest.sha256)
            write_whole(pointer, entry.name)
        _store(downloaded.folder, downloaded.manifest, entry)
        return replace(downloaded, folder=entry / "files")


def _key(model: Checkpoint, source: Source) -> str:
    """The cache's key: for files that never change, the hub's commit or the declared manifest. Else the version of each file is in it."""
    if isinstance(model, HubCheckpoint):
        return f"hub--{model.id.replace('/', '--')}--{model.revision}"
    return _url_key(source, model.manifest or source.version)


def _url_key(source: Source, identity: str) -> str:
    return f"url--{digest([source.name, identity])[:40]}"


def _remove_links(*places: Path) -> None:
    """Links in place of folders of the cache: what they lead to is not the cache's to change."""
    for place in places:
        if place.is_symlink():
            place.unlink()


def _remove(folder: Path) -> None:
    """Delete an entry, or an unfinished one beside it; BrokenCheckpoint for anything else. No link is followed."""
    if not _ENTRY.fullmatch(folder.name.removesuffix(".partial").removesuffix(".whole")):
        raise BrokenCheckpoint(
            f"{folder} is no entry of the cache and is not deleted; expected a name such as hub--<owner>--<name>--<commit>"
        )
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _intact(entry: Path, partial: Path, note: Note) -> Manifest | None:
    """The manifest of a whole entry. Files that changed since they were fetched are hashed again; damaged ones make it partial."""
    try:
        manifest = Manifest.of_json((entry / "manifest.json").read_text(encoding="utf-8"))
        stamps = json.loads((entry / "stamps.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        _remove(entry)
        return None
    damaged = [file.path for file in manifest.files if not _is_whole(entry / "files", file, stamps)]
    if not damaged:
        return manifest
    note(f"the cached {damaged[0]} is damaged and is fetched again")
    _remove(partial)
    if not (entry / "files").is_symlink() and (entry / "files").is_dir():
        (entry / "files").rename(partial)
    _remove(entry)
    for name in damaged:
        (partial / name).unlink(missing_ok=True)
    return None


def _is_whole(folder: Path, file: ManifestFile, stamps: Mapping[str, int]) -> bool:
    """Whether a file is the fetched one: by its size and time, else by its hash."""
    try:
        stat = (folder / file.path).stat()
        return (stat.st_size, stat.st_mtime_ns) == (file.bytes, stamps.get(file.path)) or hash_file(folder, file.path) == file
    except OSError:
        return False


def download(source: Source, partial: Path, note: Note) -> Cached:
    """All files of a source in the folder `partial`, which may hold some of an earlier try, and their hashes. Raises as `remote`."""
    sizes, known = source.sizes(), source.hashes()
    partial.mkdir(parents=True, exist_ok=True)
    missing = sum(size for name, size in sizes.items() if not (partial / name).exists())
    if (why := installation.insufficient_space(partial, missing)) is not None:
        raise NoSpace(why)
    total, arrived, shown = sum(sizes.values()), 0, -1

    def on_bytes(n: int) -> None:
        nonlocal arrived, shown
        arrived += n
        if (twentieths := 20 * arrived // max(1, total)) > shown:
            shown = twentieths
            note(f"fetched {format_bytes(arrived)} of {format_bytes(total)}")

    started = time.monotonic()
    moved = source.download(partial, on_bytes)
    seconds = time.monotonic() - started
    shutil.rmtree(partial / ".cache", ignore_errors=True)
    note(f"hashing {format_bytes(total)}")
    manifest = Manifest.of_folder(partial, sizes)
    for file in manifest.files:
        if file.sha256 != known.get(file.path, file.sha256):
            (partial / file.path).unlink()
            raise BrokenCheckpoint(f"{file.path} has the SHA-256 {file.sha256}; expected {known[file.path]}, as {source.name} lists it")
    return Cached(partial, manifest, source.name, "cold", moved, seconds)


def _store(files: Path, manifest: Manifest, entry: Path) -> None:
    """Make downloaded files a whole entry, in one step. An entry of the same files, which another trial may be serving, stays."""
    staged = entry.parent / f"{entry.name}.whole"
    _remove(staged)
    staged.mkdir()
    files.rename(staged / "files")
    names = [file.path for file in manifest.files]
    write_whole(staged / "manifest.json", manifest.to_json())
    write_whole(staged / "stamps.json", json.dumps({name: (staged / "files" / name).stat().st_mtime_ns for name in names}))
    try:
        staged.rename(entry)
    except OSError:
        if not (entry / "manifest.json").exists():
            raise
        _remove(staged)
    remember(manifest, entry.parent)


def local(model: FolderCheckpoint, cache: Path, note: Note) -> Cached:
    """A folder where it lies. Its hashes are remembered, and computed again for files that changed."""
    folder = existing(model)
    sizes = LocalFiles(folder).sizes()
    stamps = {name: [size, (folder / name).stat().st_mtime_ns] for name, size in sizes.items()}
    cache.mkdir(parents=True, exist_ok=True)
    key = cache / f"folder--{digest([str(folder.resolve()), stamps])[:40]}.json"
    with _locked(key.with_suffix(".lock"), note):
        try:
            manifest = Manifest.of_json(key.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            note(f"hashing {format_bytes(sum(sizes.values()))}")
            manifest = Manifest.of_folder(folder, sizes)
            write_whole(key, manifest.to_json())
    verify(model, manifest, cache)
    remember(manifest, cache)
    return Cached(folder, manifest, f"folder {model.path}", "local")


def existing(model: FolderCheckpoint) -> Path:
    folder = Path(model.path)
    if not folder.is_dir():
        raise BrokenCheckpoint(f"{folder} is not a folder here; expected the checkpoint's folder, as the trial's machine or pod sees it")
    return folder


def verify(model: Checkpoint, manifest: Manifest, cache: Path) -> None:
    """BrokenCheckpoint if another manifest is declared; it names the file where this cache has seen the declared one."""
    if model.manifest is None or manifest.sha256 == model.manifest:
        return
    what = f"the files' manifest hashes to {manifest.sha256}, but model.manifest is {model.manifest}"
    try:
        expected = Manifest.of_json((cache / "manifests" / f"{model.manifest}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        hashes = ", ".join(f"{file.path} {file.sha256[:12]}…" for file in manifest.files[:4])
        raise BrokenCheckpoint(f"{what} ({hashes}); expected the declared files, or `plumbline model add` again for the new ones") from None
    before, now = ({file.path: file for file in each.files} for each in (expected, manifest))
    name = next(name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name))
    change = "is missing" if name not in now else "is not declared" if name not in before else f"has the SHA-256 {now[name].sha256}"
    was = f", {before[name].sha256}" if name in before and name in now else ""
    raise BrokenCheckpoint(f"{name} {change}: {what}; expected the declared file{was}")


def remember(manifest: Manifest, cache: Path) -> None:
    path = cache / "manifests" / f"{manifest.sha256}.json"
    if not path.exists():
        write_whole(path, manifest.to_json())


@contextmanager
def _locked(path: Path, note: Note) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        note("waiting for another trial, which fetches the same checkpoint")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
