"""Unpack an archive of files into a folder, on every Python: the standard library's own filter came with 3.10.12 and 3.11.4."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath

MAX_MEMBERS, MAX_UNPACKED = 100_000, 512 << 20
"""Files, and bytes of all of them."""


def unpack(archive: tarfile.TarFile, into: Path) -> None:
    """Write the files, and after them the links, so that no file is written through one. ReadError for any other member, a name
    that leaves the folder, or a name twice."""
    members, size = [], 0
    for member in archive:
        members.append(member)
        size += member.size
        if len(members) > MAX_MEMBERS or size > MAX_UNPACKED:
            raise tarfile.ReadError(
                f"it holds more than {MAX_MEMBERS:,} files or {MAX_UNPACKED >> 20} MiB; expected declarations, or a script"
            )
    try:
        for member in sorted(members, key=lambda each: each.issym()):
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            if name.is_absolute() or ".." in name.parts or not (member.issym() or member.isdir() or content):
                raise tarfile.ReadError(f"{member.name} is no file, folder or link below the folder")
            target = into / name
            (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            elif content is not None:
                with target.open("xb") as file:
                    shutil.copyfileobj(content, file)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except FileExistsError as error:
        raise tarfile.ReadError(f"{error.filename} comes twice") from None
