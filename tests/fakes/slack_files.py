"""Files in the fake Slack: a ticket, the bytes, and only then a place in a channel, as `files_upload_v2` of the SDK goes about it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.slack_blocks import Refused

ALT_LIMIT = 1000


@dataclass(frozen=True)
class SharedFile:
    """A file as a person finds it: `alt_text` is what a screen reader says."""

    file_id: str
    name: str
    alt_text: str
    title: str
    data: bytes

    def as_seen(self) -> dict[str, Any]:
        """The file in a message, as Slack lists it."""
        kind = "png" if self.data.startswith(b"\x89PNG") else "binary"
        return {
            "id": self.file_id,
            "name": self.name,
            "title": self.title,
            "filetype": kind,
            "size": len(self.data),
            "alt_txt": self.alt_text,
        }


@dataclass
class _Ticket:
    name: str
    length: int
    alt_text: str
    data: bytes | None = None


@dataclass
class Files:
    """Uploads on their way, and what became of them."""

    shared: list[SharedFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tickets: dict[str, _Ticket] = {}
        self._made = 0

    def ticket(self, payload: dict[str, Any]) -> str:
        """A new file id for a name and a length in bytes."""
        name, length, alt_text = payload.get("filename"), str(payload.get("length") or ""), str(payload.get("alt_txt") or "")
        if not name or not length.isdigit() or int(length) == 0:
            raise Refused("invalid_arguments", "missing required field: filename and a length above 0")
        if len(alt_text) > ALT_LIMIT:
            raise Refused("alt_txt_too_large")
        self._made += 1
        made = f"F{self._made:010d}"
        self._tickets[made] = _Ticket(str(name), int(length), alt_text)
        return made

    def take(self, ticket: str, data: bytes) -> bool:
        """The bytes of a ticket; False if they are not those that were announced."""
        known = self._tickets.get(ticket)
        if known is None or len(data) != known.length:
            return False
        known.data = data
        return True

    def complete(self, payload: dict[str, Any]) -> list[SharedFile]:
        """The files that the call names, ready to be shared."""
        try:
            named = json.loads(payload.get("files") or "")
        except ValueError:
            raise Refused("invalid_arguments", "files must be a JSON array") from None
        if not isinstance(named, list) or not named or not all(isinstance(f, dict) and f.get("id") for f in named):
            raise Refused("invalid_arguments", "files must be an array of objects with an id")
        made = []
        for each in named:
            known = self._tickets.get(each["id"])
            if known is None or known.data is None:
                raise Refused("file_not_found")
            made.append(SharedFile(each["id"], known.name, known.alt_text, each.get("title") or known.name, known.data))
        return made

    def share(self, made: list[SharedFile]) -> None:
        """Note that they are where they belong: a ticket is good for one file once."""
        for each in made:
            del self._tickets[each.file_id]
        self.shared += made
