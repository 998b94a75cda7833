"""The log file of a server: what it says of its last start."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic_core import from_json

_OPEN = "Started GRPCInferenceService at {address}"
_STAMP = re.compile(r"^[A-Z](\d{4} \d\d:\d\d:\d\d\.\d{6}) \d+ [^\]]*\] (.*)$")
# What every start without a GPU logs as an error or a warning, and a failure's detail is better without.
_HARMLESS = re.compile(r"NVML|DCGM|CudaDriverHelper|pinned memory|CUDA (driver|memory)|libcuda", re.IGNORECASE)


class ServerLog:
    """The log file of one server. It grows with every start; what is asked is answered of the last start alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._from = 0

    def begin(self) -> None:
        self._from = self.path.stat().st_size if self.path.exists() else 0

    def text(self) -> str:
        if not self.path.exists():
            return ""
        with self.path.open("rb") as log:
            log.seek(self._from)
            return log.read().decode("utf-8", errors="replace")

    def opened(self, address: str) -> bool:
        """Whether it says that its gRPC endpoint is open at `address` (host:port)."""
        return _OPEN.format(address=address) in self.text()

    def last_errors(self) -> str:
        """The last errors, or the last lines if there are none."""
        lines = [line for line in self.text().splitlines() if line.strip() and line[0] not in "+|"]
        errors = [line for line in lines if line.startswith(("E", "error:")) and not _HARMLESS.search(line)]
        chosen = (errors or lines)[-5:]
        return f"its log says: {' | '.join(line.strip() for line in chosen)}" if chosen else "its log is empty"

    def load_s(self, model: str) -> float | None:
        """Load time by the log's own timestamps; None without one."""
        began = ended = None
        for at, text in self._messages():
            if text.startswith(f"loading: {model}:"):
                began = at
            elif text.startswith(f"successfully loaded '{model}'"):
                ended = at
        # The log's moments have no year: over New Year their difference says nothing.
        return ended - began if began is not None and ended is not None and ended >= began else None

    def about(self) -> dict[str, Any]:
        """The model's last report; empty without one."""
        about: dict[str, Any] = {}
        for _, text in self._messages():
            if "plumbline-model " in text:
                about = from_json(text.split("plumbline-model ", 1)[1])
        return about

    def _messages(self) -> list[tuple[float, str]]:
        matches = (_STAMP.match(line) for line in self.text().splitlines())
        return [(_moment(match[1]), _unquoted(match[2])) for match in matches if match]


def _unquoted(message: str) -> str:
    try:
        text = from_json(message)
    except ValueError:
        return message  # tables and older versions' messages are not quoted
    return text if isinstance(text, str) else message


def _moment(stamp: str) -> float:
    # Triton writes month and day but no year; only differences are used. 2000 is a leap year.
    return datetime.strptime(f"2000{stamp}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
