"""Messages whose wording is the product: tests/data/golden/messages.toml holds them, tests compare with it.

A changed wording is one edit of that file, or `make test ARGS="--write-golden -n 0"` and a look at the diff.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent / "data" / "golden" / "messages.toml"


class Golden:
    """Compares texts with the file; with `write`, changes the file instead."""

    def __init__(self, *, write: bool = False, file: Path = FILE) -> None:
        self.file = file
        self._write = write

    def __call__(self, name: str, text: str, **values: object) -> None:
        """Assert that `text` is the message `name`, given as `room.message`. Each of `values`, which differ from run to run, stands in the
        file as `{its name}`."""
        room, _, message = name.partition(".")
        if not re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", name):
            raise ValueError(f"{name}: expected a golden message's name as room.message")
        for key, value in values.items():
            text = text.replace(str(value), f"{{{key}}}")
        rooms = tomllib.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        if self._write:
            rooms.setdefault(room, {})[message] = text
            self.file.write_text(_dump(rooms), encoding="utf-8")
        else:
            assert text == rooms.get(room, {}).get(message), f"{name} differs from {self.file.name}; --write-golden accepts it"


def _dump(rooms: dict[str, dict[str, str]]) -> str:
    parts = []
    for room, messages in sorted(rooms.items()):
        parts.append(f"[{room}]\n")
        parts += [f"{name} = {_quoted(text)}\n" for name, text in sorted(messages.items())]
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def _quoted(text: str) -> str:
    escaped = "".join(c if c >= " " or c == "\n" else f"\\u{ord(c):04x}" for c in text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{escaped}"' if "\n" not in escaped else f'"""\n{escaped}"""'
