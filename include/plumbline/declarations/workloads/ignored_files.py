"""Which files of a script's folder its .gitignore leaves out, with git's rules; read by pathspec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from plumbline.formats.reading.text_file import UnusableFile

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".gitignore"
_MOST_BYTES = 1 << 20


def ignored_by(folder: Path) -> Callable[[Path, bool], bool]:
    """Whether a path below the folder, which is a folder itself or not, is left out. Folders above it are asked first. UnusableFile for a
    .gitignore that cannot be read."""
    read: dict[Path, GitIgnoreSpec | None] = {}

    def rules(place: Path) -> GitIgnoreSpec | None:
        if place not in read:
            read[place] = _rules(folder, place)
        return read[place]

    def ignored(path: Path, is_folder: bool) -> bool:
        place = path.parent
        while True:  # the nearest file that says something decides
            if (spec := rules(place)) is not None:
                name = path.relative_to(place).as_posix()
                if (said := spec.check_file(f"{name}/" if is_folder else name).include) is not None:
                    return bool(said)
            if place == folder:
                return False
            place = place.parent

    return ignored


def _rules(folder: Path, place: Path) -> GitIgnoreSpec | None:
    file = place / IGNORE_FILE
    if file.is_symlink() or not file.is_file():  # as git, which follows no link to one
        return None
    name = f"{folder.name}/{PurePosixPath(file.relative_to(folder))}"
    from pathspec import GitIgnoreSpec  # where a folder has such a file: most have none, and it takes a while

    try:
        if (size := file.stat().st_size) > _MOST_BYTES:
            raise UnusableFile(f"{name} has {size:,} bytes; expected at most {_MOST_BYTES:,}")
        return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    except (OSError, ValueError) as error:
        raise UnusableFile(f"{name} cannot be read ({error}); expected patterns of git, a line each") from None
