"""The files of a training script: packed into a trial when declarations are read, hashed, and unpacked where the trial runs."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from plumbline.declarations import unpacking
from plumbline.declarations.installation import installation_paths
from plumbline.declarations.workloads.ignored_files import ignored_by
from plumbline.declarations.workloads.prompts import MAX_CONTENT_BYTES, MAX_FILE_BYTES
from plumbline.declarations.workloads.script import PRIVATE_FOLDER, FolderFiles
from plumbline.declarations.workloads.script_secrets import refuse_secrets
from plumbline.declarations.workloads.text_file import add_content, deflated, inflated
from plumbline.declarations.yaml_source import FieldPath, value_at
from plumbline.formats.reading.text_file import UnusableFile

LEFT_OUT = (".git", "__pycache__", ".venv")
"""Folders and files that are no part of a script's files; nor is what its .gitignore names."""
_MOST_FILES = 20_000
_SHOWN = 3
_FIELD: FieldPath = ("task", "files")
_Entry = tuple[str, os.stat_result]
"""A file or link by its name in the folder."""


def load_files(data: Any, folder: Path) -> list[tuple[FieldPath, str]]:
    """Add what a trial needs of a script's folder to a workload's data; its problems, by field."""
    if value_at(data, (*_FIELD, "source")) != "folder":
        return []
    private = value_at(data, ("task", "private")) is True
    return add_content(data, _FIELD, FolderFiles, "path", ("content",), lambda files: _content_of(folder, files, private))


def packed_files(folder: Path) -> list[tuple[str, int]]:
    """Name and bytes of each file and link that a trial would carry. UnusableFile for a folder that no trial can carry."""
    _content_of(folder.parent, FolderFiles.model_construct(source="folder", path=folder.name), private=False)
    return [(name, found.st_size) for name, found in _entries(folder)]


def copy_packed(folder: Path, into: Path, *, bounded: bool = True) -> None:
    """Copy what a trial would carry of a folder into a new one; without a limit of its size unless `bounded`. UnusableFile, OSError."""
    for name, found in _entries(folder, bounded=bounded):
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(found.st_mode):
            target.symlink_to((folder / name).readlink())
        else:
            shutil.copy2(folder / name, target)


def _content_of(folder: Path, files: FolderFiles, private: bool) -> dict[str, Any]:
    place = folder / files.path
    if not place.resolve().is_relative_to(folder.resolve()):
        raise UnusableFile(f"{files.path} is, or lies behind, a link out of {folder.name}/; expected a folder of {folder.name}/ itself")
    entries = _entries(place)
    # Pages read all declarations each time, and the files seldom change.
    state = tuple((name, i.st_mode, i.st_size, i.st_mtime_ns, i.st_ctime_ns, i.st_ino) for name, i in entries)
    sha256, content = _packed(place, state, private)
    if files.sha256 not in (None, sha256):
        raise UnusableFile(f"{files.path} has SHA-256 {sha256}; expected {files.sha256}", "sha256")
    if private:
        return {"sha256": sha256}
    if len(content) > MAX_CONTENT_BYTES:
        raise UnusableFile(
            f"{files.path} takes {len(content):,} bytes in each trial; expected at most {MAX_CONTENT_BYTES:,}: {_largest(entries)}"
        )
    return {"sha256": sha256, "content": content}


@lru_cache(maxsize=32)
def _packed(folder: Path, _state: tuple[tuple[str | int, ...], ...], private: bool) -> tuple[str, str]:
    if not private:  # of private files documents hold the hash alone
        refuse_secrets(folder.name, ((name, content) for name, content, _ in _members(folder)))
    return folder_hash(folder), deflated(_tar(folder))


def folder_hash(folder: Path, *, unpacked: bool = False) -> str:
    """SHA-256 (hex) of the folder's files: names, whether they are executable, contents; and where links lead. `unpacked`: all of them count,
    also those that a .gitignore names. UnusableFile for what `unpack` would refuse."""
    hashed = hashlib.sha256()
    for name, content, mode in _members(folder, unpacked=unpacked):
        hashed.update(os.fsencode(f"{name}\0{mode:o}\0{len(content)}\0") + content)
    return hashed.hexdigest()


def _tar(folder: Path) -> bytes:
    """An archive that is equal for equal files: without times, owners and empty folders."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:
        for name, content, mode in _members(folder):
            member = tarfile.TarInfo(name)
            if stat.S_ISLNK(mode):
                member.type, member.linkname = tarfile.SYMTYPE, os.fsdecode(content)
                archive.addfile(member)
            else:
                member.size, member.mode = len(content), mode
                archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


def _members(folder: Path, *, unpacked: bool = False) -> Iterator[tuple[str, bytes, int]]:
    """Name, content (of a link: where it leads) and mode of each file, as git keeps it: 0644, 0755 or a link."""
    for name, found in _entries(folder, unpacked=unpacked):
        if stat.S_ISLNK(found.st_mode):
            yield name, os.fsencode((folder / name).readlink()), stat.S_IFLNK
        else:
            yield name, (folder / name).read_bytes(), 0o755 if found.st_mode & stat.S_IXUSR else 0o644


def _entries(folder: Path, *, unpacked: bool = False, bounded: bool = True) -> list[_Entry]:
    """Files and links below the folder, by name, except LEFT_OUT and, unless `unpacked`, what a .gitignore names. UnusableFile for a folder that
    no trial can carry."""
    if (real := folder.resolve()) == real.parent:
        raise UnusableFile(f"{folder} is the root of the file system; expected the folder with the script's files")
    if not folder.is_dir():
        raise UnusableFile(f"{folder.name} is not a folder of {folder.parent.name}/; expected one with the script's files")
    entries: list[_Entry] = []
    ignored = (lambda path, is_folder: False) if unpacked else ignored_by(folder)
    try:
        for place, folders, files in os.walk(folder, onerror=_refuse):
            links = [name for name in folders if Path(place, name).is_symlink()]
            folders[:] = [n for n in folders if n not in (*LEFT_OUT, *links) and not ignored(Path(place, n), True)]
            for path in (Path(place, name) for name in (*files, *links) if name not in LEFT_OUT):
                if ignored(path, False):
                    continue
                if bounded and len(entries) == _MOST_FILES:
                    raise UnusableFile(f"{folder.name} holds more than {_MOST_FILES:,} files; expected the script's alone, or source git")
                entries.append((path.relative_to(folder).as_posix(), path.lstat()))
                _check(folder, path, entries[-1][1].st_mode)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise UnusableFile(f"{folder.name} cannot be read ({getattr(error, 'strerror', None) or error}); expected readable files") from None
    entries.sort(key=lambda entry: os.fsencode(entry[0]))
    if not entries:
        raise UnusableFile(f"{folder.name} holds no file; expected the script's files")
    if bounded and (size := sum(found.st_size for _, found in entries)) > MAX_FILE_BYTES:
        raise UnusableFile(f"{folder.name} has {size:,} bytes; expected at most {MAX_FILE_BYTES:,}: {_largest(entries)}")
    return entries


def _refuse(error: OSError) -> None:
    raise error


def _check(folder: Path, path: Path, mode: int) -> None:
    name = path.relative_to(folder).as_posix()
    if stat.S_ISLNK(mode):
        target = path.readlink()
        if target.is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
            raise UnusableFile(f"{folder.name}/{name} is a link to {target}; expected links that stay in the folder")
    elif not stat.S_ISREG(mode):
        raise UnusableFile(f"{folder.name}/{name} is no file, folder or link; expected such alone")


def _largest(entries: list[_Entry]) -> str:
    """Advice that names the largest files."""
    first = sorted(entries, key=lambda entry: -entry[1].st_size)[:_SHOWN]
    return f"{', '.join(f'{name} ({found.st_size:,} bytes)' for name, found in first)} elsewhere, or source git"


def unpack(files: FolderFiles, into: Path) -> None:
    """Write the files as they were declared into an empty folder: from the trial, or private ones from the folder of PRIVATE_FOLDER.

    UnusableFile if they are absent, damaged or others."""
    private = Path(os.environ.get(PRIVATE_FOLDER) or installation_paths().config / "scripts") / files.path
    try:
        # Headers and padding of many small files come to their contents.
        packed = _tar(private) if files.content is None else inflated(files.content, 4 * MAX_FILE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(packed), encoding="utf-8") as archive:
            unpacking.unpack(archive, into)
    except UnusableFile:
        raise
    except (ValueError, zlib.error, tarfile.TarError) as error:
        raise UnusableFile(f"task.files.content is damaged ({type(error).__name__}); expected the trial as it was planned") from None
    if (found := folder_hash(into, unpacked=True)) != files.sha256:
        raise UnusableFile(f"{files.path} has SHA-256 {found}; expected {files.sha256}, which the trial was planned with")
