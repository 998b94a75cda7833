"""Shelves: reports, Data Docs and acceptance sheets by name, in folders of the home, or in the result store if that is a bucket.

In the store each writing gets a folder of its own, `<shelf>/<name>/<time>-<chance>/`, and the archive's rows then name its files with their SHA-256: readers see
all files of one writing, and none that the archive does not know. `declarations.storage` decides which shelf lies where.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Protocol

from plumbline.archive.archive import Archive, open_archive
from plumbline.archive.written_files import NewFile
from plumbline.declarations import installation_paths
from plumbline.declarations.storage import ShelfKind, shelf_folder, shelf_prefix, writes_shelves_to_store
from plumbline.results import InvalidResult, ResultStore
from plumbline.whole_file import sha256_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
"""Of a folder, and of each part of a file's path: no slash, and no dot at the beginning."""
_WRITING = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{8}")
_STAMP = "%Y%m%dT%H%M%SZ"
_PATIENCE_S = 60.0
_UNFINISHED = timedelta(days=1)
"""After so long, a writing without a row in the archive was cut short."""

OpenArchive = Callable[[], AbstractContextManager[Archive]]


@dataclass(frozen=True)
class Deleted:
    """`names`: folders that were deleted; `bytes` of their files."""

    names: int
    bytes: int


class Shelf(Protocol):
    """Folders of files of one kind. A name or a file that no shelf can have is not there; nothing outside the shelf is reached."""

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A folder to write the files of `name` into, which may not exist yet; they are in force when the block ends well."""

    def address(self, name: str, file: str) -> str:
        """Path or URL of a file, for people."""

    def files(self, name: str) -> tuple[str, ...]:
        """Paths of the folder's files, sorted."""

    def names(self, file: str) -> frozenset[str]:
        """The folders that hold this file; of a flat shelf none."""

    def open(self, name: str, file: str) -> IO[bytes] | None:
        """The file from its begin, or None without one. InvalidResult if it does not have the SHA-256 of its writing; OSError if the store does not
        answer."""

    def delete_older(self, before: float) -> Deleted:
        """Delete the folders in which nothing was written since a time in seconds since the epoch; the newest stays. OSError if the store does not
        answer."""

    def size(self) -> tuple[str, int, int]:
        """Where the shelf is, its files and their bytes."""


def shelf(kind: ShelfKind, archive: OpenArchive | None = None) -> Shelf:
    """The installation's shelf. `archive`: opens the archive that has its rows; the installation's if left out."""
    paths = installation_paths()
    if writes_shelves_to_store(paths):
        return StoreShelf(kind, ResultStore(paths.results_url), archive or open_archive)
    return FolderShelf(shelf_folder(paths, kind), flat=kind == "acceptance")


@dataclass(frozen=True)
class FolderShelf:
    """A shelf in a folder of this machine. Its writers are trusted. `flat`: each name's file lies in the folder itself."""

    folder: Path
    flat: bool = False

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """The folder itself: those who write into it put each file, or the whole folder, into its place at once."""
        yield self._of(_checked(name))

    def address(self, name: str, file: str) -> str:
        return str(self._of(name) / file)

    def files(self, name: str) -> tuple[str, ...]:
        folder = self._of(name)
        if not _NAME.fullmatch(name):
            return ()
        if self.flat:
            return tuple(sorted(path.name for path in folder.glob(f"{name}.*") if path.stem == name))
        return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))

    def names(self, file: str) -> frozenset[str]:
        return frozenset(path.name for path in self.folder.glob("*") if _NAME.fullmatch(path.name) and (path / file).is_file())

    def open(self, name: str, file: str) -> IO[bytes] | None:
        if not _is_valid(name, file):
            return None
        try:
            return (self._of(name) / file).open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def delete_older(self, before: float) -> Deleted:
        folders = [path for path in self.folder.iterdir() if path.is_dir() and not path.is_symlink()] if self.folder.is_dir() else []
        written = {path: max([path.stat().st_mtime, *(file.lstat().st_mtime for file in _below(path))]) for path in folders}
        names = size = 0
        for path in sorted(folders, key=lambda path: written[path])[:-1]:
            if written[path] < before:
                size += sum(file.lstat().st_size for file in _below(path))
                shutil.rmtree(path, ignore_errors=True)
                names += 1
        return Deleted(names, size)

    def size(self) -> tuple[str, int, int]:
        sizes = [file.lstat().st_size for file in _below(self.folder)]
        return str(self.folder), len(sizes), sum(sizes)

    def _of(self, name: str) -> Path:
        return self.folder if self.flat else self.folder / name


@dataclass(frozen=True)
class StoreShelf:
    """A shelf in the result store. Others may write there: a file counts only with the SHA-256 that the archive recorded."""

    kind: ShelfKind
    store: ResultStore
    archive: OpenArchive

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        _checked(name)
        with tempfile.TemporaryDirectory(prefix="plumbline-shelf-") as scratch:
            folder = Path(scratch) / name
            yield folder
            self._put(name, folder)

    def _put(self, name: str, folder: Path) -> None:
        into = f"{shelf_prefix(self.kind)}/{name}/{datetime.now(timezone.utc):{_STAMP}}-{uuid.uuid4().hex[:8]}"
        written = []
        for path in _below(folder):
            file = path.relative_to(folder).as_posix()
            self.store.put_file(f"{into}/{file}", path)
            written.append(NewFile(file, f"{into}/{file}", sha256_file(path), path.stat().st_size))
        # Alone: of two writings of one name that end together, the later one replaces the whole other one.
        with self.archive() as archive, archive.alone(f"shelf{self.kind.replace('_', '')}", _PATIENCE_S):
            gone = archive.record_written(self.kind, name, written)
        for replaced in gone:  # killed before, `delete_older` finds them
            self.store.remove(replaced)

    def address(self, name: str, file: str) -> str:
        with self.archive() as archive:
            row = archive.written_file(self.kind, name, file)
        if row is None:
            raise LookupError(f"{self.store.uri(shelf_prefix(self.kind))} has no {name}/{file}")
        return self.store.uri(row.path)

    def files(self, name: str) -> tuple[str, ...]:
        with self.archive() as archive:
            return tuple(row.file for row in archive.written_list(self.kind, name))

    def names(self, file: str) -> frozenset[str]:
        with self.archive() as archive:
            return frozenset(row.name for row in archive.written_list(self.kind, file=file))

    def open(self, name: str, file: str) -> IO[bytes] | None:
        if not _is_valid(name, file):
            return None
        seen = None
        while True:
            with self.archive() as archive:
                row = archive.written_file(self.kind, name, file)
            if row is None:
                return None
            copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
            try:
                found = self.store.digest(row.path, row.bytes, copy)
            except FileNotFoundError:
                copy.close()
                if row.path != seen:  # written again meanwhile
                    seen = row.path
                    continue
                raise InvalidResult(f"{self.store.uri(row.path)} is missing; {self._remedy(name)}") from None
            except BaseException:
                copy.close()
                raise
            if found != (row.sha256, row.bytes):
                copy.close()
                raise InvalidResult(f"{self.store.uri(row.path)} does not have the SHA-256 that the archive recorded; {self._remedy(name)}")
            copy.seek(0)
            return copy

    def _remedy(self, name: str) -> str:
        again = {"reports": f"`plumbline report {name}` writes it again", "data_docs": "clear its `validate` task to write it again"}
        return again.get(self.kind, "clear the task `sheet` of its `acceptance` run to write it again")

    def delete_older(self, before: float) -> Deleted:
        with self.archive() as archive:
            forgotten = archive.forget_written(self.kind, datetime.fromtimestamp(before, timezone.utc))
            known = {row.path for row in archive.written_list(self.kind)}
        gone = {row.path for row in forgotten}
        for path in gone:
            self.store.remove(path)
        for path, _ in list(self.store.objects(shelf_prefix(self.kind))):
            if path not in known and path not in gone and _is_unfinished(path):
                self.store.remove(path)
        return Deleted(len({row.name for row in forgotten}), sum(row.bytes for row in forgotten))

    def size(self) -> tuple[str, int, int]:
        with self.archive() as archive:
            rows = archive.written_list(self.kind)
        return self.store.uri(shelf_prefix(self.kind)), len(rows), sum(row.bytes for row in rows)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" cannot name a folder of a shelf; expected letters, digits, dots, dashes and underscores')
    return name


def _is_valid(name: str, file: str) -> bool:
    return bool(_NAME.fullmatch(name)) and all(_NAME.fullmatch(part) for part in file.split("/"))


def _is_unfinished(path: str) -> bool:
    for part in path.split("/"):
        if found := _WRITING.fullmatch(part):
            began = datetime.strptime(found[1], _STAMP).replace(tzinfo=timezone.utc)
            return datetime.now(timezone.utc) - began > _UNFINISHED
    return False


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
