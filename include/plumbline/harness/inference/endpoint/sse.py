"""Server-sent events out of a stream of bytes, wherever the network cut it."""

from __future__ import annotations

_LONGEST = 4 * 2**20


class EventTooLong(ValueError):
    """An event without an end."""


class Events:
    """Collects bytes and gives the data of each event that is complete.

    Lines end with LF, CR LF or CR; `data` lines of one event are joined by LF; comments and other fields are left out.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """Data of the events that are complete now; EventTooLong if one exceeds 4 MiB."""
        received = self._rest + received
        # A CR at the end may be the first half of a CR LF.
        held = received.endswith(b"\r")
        if b"\r" in received:
            received = received[: len(received) - held].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\r" * held
        *lines, self._rest = received.split(b"\n")
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        if len(self._rest) + sum(map(len, self._data)) > _LONGEST:
            raise EventTooLong(f"an event is longer than {_LONGEST} bytes")
        return found
