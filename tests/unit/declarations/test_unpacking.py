from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from plumbline.declarations.unpacking import unpack


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode, made.size = kind, link, mode, 2 if kind == tarfile.REGTYPE else 0
    return made


def unpacked(into: Path, *members: tarfile.TarInfo) -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for each in members:
            archive.addfile(each, io.BytesIO(b"ok") if each.isreg() else None)
    with tarfile.open(fileobj=io.BytesIO(written.getvalue())) as archive:
        unpack(archive, into)


def test_files_folders_and_links_are_written(tmp_path: Path) -> None:
    unpacked(
        tmp_path, member("new", tarfile.SYMTYPE, "a/run.sh"), member("a", tarfile.DIRTYPE), member("a/run.sh", mode=0o755), member("b")
    )
    assert (tmp_path / "new").read_text() == (tmp_path / "b").read_text() == "ok"
    assert (tmp_path / "a" / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside")],
        [member("/outside")],
        [member("in", tarfile.FIFOTYPE)],
        [member("in", tarfile.LNKTYPE, "other")],
        [member("in"), member("in")],
        [member("in", tarfile.SYMTYPE, ".."), member("in/outside")],
    ],
    ids=["above", "absolute", "pipe", "hard link", "twice", "through a link"],
)
def test_what_leaves_the_folder_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(tarfile.TarError):
        unpacked(folder, *members)
    assert [path for path in tmp_path.iterdir() if path != folder] == []
