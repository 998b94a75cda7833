"""A command's output: split into lines, and kept within bounds without the values of its secrets."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import IO

from plumbline.formats.reading.pattern import compiled

KEPT_BYTES = 1 << 20
"""Of the beginning, and as much of the end."""
_LINE_BYTES = 1 << 16
"""A longer line is taken in parts."""
WANTED_BYTES = 1 << 22
"""Of the lines between the kept beginning and end that may hold a result."""
_LAST_LINES, _SHOWN_CHARACTERS = 20, 300
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
_MIN_SECRET = 6
"""Characters: shorter values are words such as `true`, whose replacement would tell what they are."""


class ScriptOutput:
    """Copies the beginning to `kept` as it comes, and the end when it is closed. `variables`: of the command.

    `wanted`: a regular expression of the lines that are kept wherever they come; none if it is empty."""

    def __init__(self, kept: IO[bytes], variables: Mapping[str, str], wanted: str = "") -> None:
        self._kept = kept
        self._wanted = compiled(wanted) if wanted else None
        self._wanted_room = WANTED_BYTES
        values = {value for name, value in variables.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET}
        self._secrets = [value.encode(errors="surrogateescape") for value in sorted(values, key=len, reverse=True)]
        self._partial, self._room = b"", KEPT_BYTES
        self._end: deque[bytes] = deque()
        self._end_bytes = self._left_out = 0
        self._last: deque[bytes] = deque(maxlen=_LAST_LINES)

    def lines(self, data: bytes) -> list[str]:
        """The lines that `data` completes; a carriage return ends one too, as progress bars write it."""
        *whole, self._partial = (self._partial + data.replace(b"\r", b"\n")).split(b"\n")
        while len(self._partial) > _LINE_BYTES:
            whole.append(self._partial[:_LINE_BYTES])
            self._partial = self._partial[_LINE_BYTES:]
        for line in filter(None, whole):
            self._keep(line)
        return [line.decode(errors="replace") for line in whole if line]

    def close(self) -> list[str]:
        """Write the end; returns the last line if nothing ended it."""
        last = self.lines(b"\n")
        if self._left_out:
            self._kept.write(f"… {self._left_out} bytes left out …\n".encode())
        for line in self._end:
            self._write(line)
        self._end.clear()
        self._kept.flush()
        return last

    def last_lines(self) -> str:
        """The last 20 lines, each shortened."""
        return "\n".join(self._redacted(line).decode(errors="replace")[:_SHOWN_CHARACTERS] for line in self._last)

    def _keep(self, line: bytes) -> None:
        self._last.append(line)
        size = len(line) + 1
        if self._room >= size:
            self._room -= size
            self._write(line)
            self._kept.flush()
            return
        self._room = 0
        self._end.append(line)
        self._end_bytes += size
        while self._end_bytes > KEPT_BYTES:
            line = self._end.popleft()
            gone = len(line) + 1
            self._end_bytes -= gone
            if self._wanted is not None and gone <= self._wanted_room and self._wanted.search(line.decode(errors="replace")) is not None:
                self._wanted_room -= gone
                self._write(line)
            else:
                self._left_out += gone

    def _write(self, line: bytes) -> None:
        self._kept.write(self._redacted(line) + b"\n")

    def _redacted(self, line: bytes) -> bytes:
        for secret in self._secrets:
            line = line.replace(secret, b"***")
        return line
