"""What writes to the archive, killed before each of its changes, or with a disk that is full at each page: on a copy of the archive each time."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from plumbline.archive import Archive

_CHANGES = ("INSERT", "UPDATE", "DELETE")
_MOST = 200


def killed_at_each_change(archive: Archive, folder: Path, write: Callable[[], object]) -> Iterator[str]:
    """The address of the archive after each kill: SIGKILL before the first change, then before the second, until `write` gets to its end.

    `write` works on the installation's archive, which is a copy each time, in a process of its own."""
    for change in range(1, _MOST):
        url = _copy(archive, folder / f"killed-{change}.db")
        child = os.fork()
        if child == 0:
            _write_until(change, url, write)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the writer failed by itself"
            assert change > 2, "it was to be killed before each of its changes"
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield url
    raise AssertionError(f"more than {_MOST} changes")


def _write_until(change: int, url: str, write: Callable[[], object]) -> None:
    left = change

    def step(*of: object) -> None:
        nonlocal left
        text = of[2] if len(of) > 2 else "INSERT"  # a commit has no statement
        if str(text).lstrip()[:6].upper() in _CHANGES:
            left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", step)
    event.listen(Engine, "commit", step)
    os.environ["PLUMBLINE_ARCHIVE_URL"] = url
    status = 1
    try:
        write()
        status = 0
    finally:
        os._exit(status)


def full_at_each_page(archive: Archive, folder: Path, write: Callable[[], object], patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same with a disk on which the archive may grow by no page, by one, by two, until there is room for `write`."""
    for pages in range(_MOST):
        url = _copy(archive, folder / f"full-{pages}.db", small_pages=True)

        def limit(connection: object, _: object, pages: int = pages) -> None:
            cursor = connection.cursor()  # type: ignore[attr-defined]
            (there,) = cursor.execute("PRAGMA page_count").fetchone()
            cursor.execute(f"PRAGMA max_page_count={max(there, 1) + pages}")

        patch.setenv("PLUMBLINE_ARCHIVE_URL", url)
        event.listen(Engine, "connect", limit)
        try:
            write()
        except OperationalError as error:
            assert "full" in str(error.orig)
        else:
            assert pages > 0, "it was to have no room at first"
            return
        finally:
            event.remove(Engine, "connect", limit)
        yield url
    raise AssertionError(f"no room after {_MOST} pages")


def _copy(archive: Archive, file: Path, small_pages: bool = False) -> str:
    """`small_pages`: of 512 bytes, so that almost every row needs a new one."""
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(str(archive.engine.url.database))) as connection:
        connection.execute("VACUUM INTO ?", [str(file)])
    if small_pages:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            for line in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):
                connection.execute(line)
    return f"sqlite:///{file}"
