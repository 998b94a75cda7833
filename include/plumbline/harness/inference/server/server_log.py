"""The log file of a server: what it says of its last start."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from plumbline.harness.measurement import TrialFailed

_OPEN = "Started GRPCInferenceService at {address}"
# Processes of the server write to the same file: a message can begin behind what another one wrote, and end before it.
_STAMP = re.compile(r"[A-Z](\d{4} \d\d:\d\d:\d\d\.\d{6}) \d+ [^\]]*\] (.*)$")
_DECODER = json.JSONDecoder()
_REPORT = "plumbline-model "
# What every start without a GPU logs as an error or a warning, and a failure's detail is better without.
_HARMLESS = re.compile(r"NVML|DCGM|CudaDriverHelper|pinned memory|CUDA (driver|memory)|libcuda", re.IGNORECASE)

_Value = TypeVar("_Value")


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

    def about(self, within_s: float = 2.0) -> dict[str, Any]:
        """The model's last report, once its line is whole; empty without one. TrialFailed for one that stays in parts: without what the model says
        of itself, the environment would look changed."""
        until = time.monotonic() + within_s
        while not (about := self._reported()) and _REPORT in self.text():
            if time.monotonic() > until:
                raise TrialFailed(
                    "harness_error", f"{self.path.name}: the line of {_REPORT.strip()} is in parts; expected one JSON object behind it"
                )
            time.sleep(0.05)
        return about

    def _reported(self) -> dict[str, Any]:
        about: dict[str, Any] = {}
        for _, text in self._messages():
            if _REPORT in text:
                about = _leading_value(text.split(_REPORT, 1)[1], about)
        return about

    def _messages(self) -> list[tuple[float, str]]:
        matches = (_STAMP.search(line) for line in self.text().splitlines())
        return [(_moment(match[1]), _unquoted(match[2])) for match in matches if match]


def _unquoted(message: str) -> str:
    return _leading_value(message, message)  # tables are not quoted


def _leading_value(text: str, otherwise: _Value) -> _Value:
    """The JSON value that a text begins with; `otherwise` if it begins with none of that type, or with a part of one."""
    try:
        value, _ = _DECODER.raw_decode(text)
    except ValueError:
        return otherwise
    return value if isinstance(value, type(otherwise)) else otherwise


def _moment(stamp: str) -> float:
    # Triton writes month and day but no year; only differences are used. 2000 is a leap year.
    return datetime.strptime(f"2000{stamp}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
