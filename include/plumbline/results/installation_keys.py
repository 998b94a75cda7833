"""The keys that this installation signs evidence packs with. Normally one; two while recipients learn the next one: every pack is then signed by both.

PLUMBLINE_EVIDENCE_KEY holds them where a Secret gives them to the processes that sign; otherwise PLUMBLINE_HOME/evidence-key, which is made at its first
use and which only its owner reads. The public halves lie beside it, for pages whose process has no key.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from plumbline.declarations import installation_paths
from plumbline.results.signing import InvalidKey, KeyPair
from plumbline.whole_file import write_whole

VARIABLE = "PLUMBLINE_EVIDENCE_KEY"
"""Private halves, 64 hexadecimal digits each, with space between; the first one is the oldest."""


class Unchangeable(ValueError):
    """The keys are not this command's to change. The message says where they are."""


def installation_keys() -> tuple[KeyPair, ...]:
    """The keys, oldest first; one is made if there is none.

    InvalidKey if the variable or the file holds none; OSError if the file cannot be read, or not be made."""
    given = os.environ.get(VARIABLE, "").split()
    if given:
        keys = tuple(KeyPair.parse(text, VARIABLE) for text in given)
    else:
        if not _file().exists():
            _make(_file())
        texts = _file().read_text(errors="replace").split()
        keys = tuple(KeyPair.parse(text, _file()) for text in texts)
        if not keys:
            raise InvalidKey(f"{_file()} is empty; expected the 64 hexadecimal digits of an Ed25519 private key")
    _publish(keys)
    return keys


def published_keys() -> tuple[str, ...]:
    """The public halves, 64 hexadecimal digits each, oldest first; empty before the first pack, or where they cannot be read."""
    try:
        return tuple(_published().read_text(errors="replace").split())
    except OSError:
        return ()


def announce_key() -> tuple[KeyPair, ...]:
    """Add a key, with which packs are signed too from now on. Unchangeable where there are two already, or the variable holds them."""
    keys = _changeable()
    if len(keys) > 1:
        raise Unchangeable(f"{len(keys)} keys sign already; expected --retire first, once all recipients have the newer one")
    return _write((*keys, KeyPair.generate()))


def retire_key() -> tuple[KeyPair, ...]:
    """Remove the oldest key. Unchangeable where it is the only one, or the variable holds them."""
    keys = _changeable()
    if len(keys) == 1:
        raise Unchangeable("the only key cannot be retired; expected --announce first, and time for recipients to learn the next one")
    return _write(keys[1:])


def _changeable() -> tuple[KeyPair, ...]:
    if os.environ.get(VARIABLE, "").split():
        raise Unchangeable(f"the keys come from {VARIABLE}; expected the change in the Secret that sets it: a second key behind the first")
    return installation_keys()


def _write(keys: tuple[KeyPair, ...]) -> tuple[KeyPair, ...]:
    file = _file()
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        with _private(draft) as opened:
            opened.write("\n".join(key.private_hex for key in keys))
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    _publish(keys)
    return keys


def _publish(keys: tuple[KeyPair, ...]) -> None:
    public = "\n".join(key.public_hex for key in keys)
    with suppress(OSError):  # a pack is signed all the same
        if not _published().exists() or _published().read_text() != public:
            write_whole(_published(), public)


def _file() -> Path:
    return installation_paths().home / "evidence-key"


def _published() -> Path:
    return installation_paths().home / "evidence-key.pub"


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        with _private(draft) as opened:
            opened.write(KeyPair.generate().private_hex)
        with suppress(FileExistsError):  # another process made it meanwhile: its key counts
            file.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)


def _private(file: Path) -> TextIO:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
