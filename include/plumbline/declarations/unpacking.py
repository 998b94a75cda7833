"""Unpack an archive of files into a folder, on every Python: the standard library's own filter came with 3.10.12 and 3.11.4."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath


def unpack(archive: tarfile.TarFile, into: Path) -> None:
    """Write the files, and after them the links, so that no file is written through one. ReadError for any other member, a name
    that leaves the folder, or a name twice."""
    members = archive.getmembers()
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
                    file.write(content.read())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
    except FileExistsError as error:
        raise tarfile.ReadError(f"{error.filename} comes twice") from None
