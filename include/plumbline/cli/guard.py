"""What holds for every command: nothing that it prints moves the terminal's cursor, and an archive that another process holds is one sentence."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, cast

from plumbline.cli.exit_status import FAILED
from plumbline.metrics.printable import printable_styled
from plumbline.patience import waiting_at_most

PATIENCE_S = 2.5
"""Seconds that a command waits for another writer of the archive."""


class PrintableStream:
    """A stream of text without control characters; styles stay. `beneath`: the stream itself, for who writes cleaned text and moves the cursor."""

    def __init__(self, beneath: Any) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write what is left of the text; the length of all of it."""
        self.beneath.write(printable_styled(text) if isinstance(text, str) else text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Run a command; SystemExit after a sentence about an archive that does not answer in time. Other errors keep their traceback."""
    out, err = (cast("Any", PrintableStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err), waiting_at_most(PATIENCE_S):
        try:
            yield
        except Exception as error:
            if (reason := _no_answer(error)) is None:
                raise
            err.write(f"the archive does not answer: {reason}; try again when no other process holds it\n")
            raise SystemExit(FAILED) from error


def _no_answer(error: BaseException | None) -> str | None:
    """What a database said that is locked or gone; None where another error is the reason."""
    while error is not None:
        cause = getattr(error, "orig", None) or error
        locked = isinstance(cause, sqlite3.OperationalError) and any(word in str(cause) for word in ("locked", "busy"))
        # PostgreSQL's driver is imported only where an archive needs it.
        if locked or (
            type(cause).__module__.startswith("psycopg") and "OperationalError" in {base.__name__ for base in type(cause).__mro__}
        ):
            return " ".join(str(cause).split())
        error = error.__cause__ or error.__context__
    return None
