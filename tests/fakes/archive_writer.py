"""Other processes that write to an archive: what the tests of concurrency and of sudden death start."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, event
from tests.data.result_documents import document, trial

from plumbline.archive import open_archive

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
    left = statement

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", step)
    event.listen(Engine, "commit", step)
    archive.record(document(trial(repeat=repeat)), uri=URI)
