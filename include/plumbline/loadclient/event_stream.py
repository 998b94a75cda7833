"""The events of an HTTP stream (server-sent events), whatever they hold."""

from __future__ import annotations

from plumbline.loadclient.request_log import ErrorClass

_LONGEST = 4 * 2**20
_BOM = b"\xef\xbb\xbf"


class InvalidResponse(Exception):
    """An invalid answer: class and detail of the request's failure."""

    def __init__(self, error: ErrorClass, detail: str) -> None:
        super().__init__(detail)
        self.error: ErrorClass = error
        self.detail = detail


class NamedError(bytes):
    """Data of an event whose name says that it is an error."""


class EventStream:
    """Collects bytes and gives the data of each event that is complete.

    Lines end with LF, CR LF or CR; `data` lines of one event are joined by LF; a byte order mark, comments and other fields are left out.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._begun = self._error = False

    def feed(self, received: bytes) -> list[bytes]:
        """Data of the events that are complete now; InvalidResponse if one exceeds 4 MiB."""
        received = self._rest + received
        if not self._begun:
            if _BOM.startswith(received):
                self._rest = received
                return []
            self._begun, received = True, received.removeprefix(_BOM)
        # A CR at the end may be the first half of a CR LF.
        ends_in_cr = received.endswith(b"\r")
        if b"\r" in received:
            received = received[: len(received) - ends_in_cr].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\r" * ends_in_cr
        *lines, self._rest = received.split(b"\n")
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if self._data:
                    data = b"\n".join(self._data)
                    events.append(NamedError(data) if self._error else data)
                    self._data = []
                self._error = False
            elif line.startswith(b"event:"):
                self._error = line[6:].strip() == b"error"
            elif line.startswith(b"error:"):  # llama.cpp's own field
                self._data.append(line[6:])
                self._error = True
        if len(self._rest) + (sum(map(len, self._data)) if self._data else 0) > _LONGEST:
            raise InvalidResponse("server_error", f"an event is longer than {_LONGEST} bytes")
        return events

    def unfinished(self) -> bytes:
        """Data of the last event if its empty line did not come."""
        return next(iter(self.feed(b"\n\n")), b"")
