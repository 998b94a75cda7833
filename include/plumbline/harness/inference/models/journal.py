"""Which requests a model began and which it answered, in a file that outlives the death of model and server.

A server that is killed takes its counters along. What its model had written by then stays: the kernel keeps bytes that were handed to it,
whoever dies afterwards. The model writes (it runs inside Triton, with this file beside it), the harness reads.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_RECORD = struct.Struct("<ii")
_STARTED, _FINISHED = 1, 2
_NUMBERS = 2**31
"""Of our own requests; other clients count from anywhere."""


class Journal:
    """One model process's file in `folder`: 8 bytes a record, the event and the request's number, little-endian."""

    def __init__(self, folder: Path) -> None:
        # Named by time so that they sort by incarnation, and by process since two instances may begin together.
        self._fd = os.open(folder / f"journal-{time.time_ns()}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def started(self, request_id: str) -> None:
        """A request has reached the model. Ids that are no such numbers are another client's, and are left out."""
        self._write(_STARTED, request_id)

    def finished(self, request_id: str) -> None:
        """Its last response was taken over by the server, and was no error."""
        self._write(_FINISHED, request_id)

    def _write(self, event: int, request_id: str) -> None:
        if request_id.isdigit() and int(request_id) < _NUMBERS:
            os.write(self._fd, _RECORD.pack(event, int(request_id)))


@dataclass(frozen=True)
class Entries:
    """The entries of one model process: numbers of requests in the order of the events."""

    started: tuple[int, ...]
    finished: tuple[int, ...]


Position = dict[str, int]
"""Bytes of each file that were already there."""


def position(folder: Path) -> Position:
    """Where the files end now: `read` from here on tells what happened afterwards."""
    return {file.name: file.stat().st_size for file in folder.glob("journal-*")}


def read(folder: Path, since: Position) -> list[Entries]:
    """The entries of each incarnation after `since`, the oldest first. A record that was cut off by the process's end did not happen."""
    entries = []
    for file in sorted(folder.glob("journal-*")):
        data = file.read_bytes()[since.get(file.name, 0) :]
        records = list(_RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]))
        entries.append(Entries(*(tuple(n for event, n in records if event == kind) for kind in (_STARTED, _FINISHED))))
    return entries
