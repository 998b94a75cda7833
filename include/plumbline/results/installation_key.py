"""The key that this installation signs evidence packs with: made at its first use, kept in one file that only its owner reads."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

from plumbline.declarations import installation_paths
from plumbline.results.signing import InvalidKey, KeyPair


def published_key() -> str | None:
    """The public half of the key that packs were signed with, 64 hexadecimal digits; None before the first pack, or where it cannot be read."""
    try:
        return installation_key().public_hex if _file().exists() else None
    except (InvalidKey, OSError):
        return None


def installation_key() -> KeyPair:
    """The key in PLUMBLINE_HOME/evidence-key, which is made if it is not there.

    InvalidKey if the file holds none; OSError if it cannot be read, or not be made."""
    file = _file()
    if not file.exists():
        _make(file)
    return KeyPair.parse(file.read_text(errors="replace").strip(), file)


def _file() -> Path:
    return installation_paths().home / "evidence-key"


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(KeyPair.generate().private_hex)
        with suppress(FileExistsError):  # another process made it meanwhile: its key counts
            file.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
