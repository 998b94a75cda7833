"""Other processes that write to an archive: what the tests of concurrency and of sudden death start."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from tests.data.result_documents import document, trial
from tests.fakes.next_schema import newer_program

from plumbline.archive import open_archive
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import upgrade

URI = "file:///store"


def record_all(url: str, repeats: Sequence[int], start: Any, answers: Any) -> None:
    """Open the archive when everybody is ready, record these repeats, and answer with what each call said."""
    start.wait()
    with open_archive(url) as archive:
        said = [archive.record(document(trial(repeat=n)), uri=URI) for n in repeats]
    answers.put(said)


def die_at(url: str, repeat: int, statement: int) -> None:
    """Record one trial, but be killed (SIGKILL) just before the n-th statement of it; `commit` counts as one."""
    archive = open_archive(url)
    _killed_before(statement)
    archive.record(document(trial(repeat=repeat)), uri=URI)


def die_correcting_at(url: str, repeat: int, statement: int) -> None:
    """The same while a recorded trial is corrected."""
    archive = open_archive(url)
    _killed_before(statement)
    archive.correct(document(trial(repeat=repeat, attempt=2)), 1, by="ada", why="a test", uri=URI)


def die_importing_at(url: str, bundle: Path, statement: int) -> None:
    """The same while a bundle is taken in."""
    archive = open_archive(url)
    _killed_before(statement)
    archive.import_(bundle)


def die_migrating_at(url: str, migrations: Path, statement: int) -> None:
    """The same while an archive is migrated to the schema of a newer program."""
    engine = make_engine(url)
    _killed_before(statement)
    with newer_program(migrations):
        upgrade(engine)


def _killed_before(statement: int) -> None:
    left = statement

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", step)
    event.listen(Engine, "commit", step)
