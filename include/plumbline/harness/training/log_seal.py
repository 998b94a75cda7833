"""Seals the step log of a script's worker: the command runs as the same user and can write to the file, but not a line that counts.

Each line carries a code over its log's name, its number and its text, by a key that the worker gets on its standard input and that is in no
file, variable or argument. Standard library only: workers import it."""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

_BEFORE, _AFTER = b', "seal": "', b'"}'
_DIGITS = 32


class ForgedLog(Exception):
    """A step log is not as its worker wrote it."""


@lru_cache(maxsize=1)
def key_of_this_process() -> bytes:
    """The key of all runs that this process starts; another one in each process."""
    return secrets.token_bytes(32)


def hand_over(descriptor: int) -> None:
    """Write the key to a worker's standard input."""
    os.write(descriptor, key_of_this_process().hex().encode() + b"\n")


def take_over() -> bytes:
    """The key from standard input, before anything is started. EOFError if the parent has ended."""
    line = b""
    while not line.endswith(b"\n"):
        if not (read := os.read(0, 1)):
            raise EOFError("the parent ended before it gave the log's key")
        line += read
    return bytes.fromhex(line.decode())


class LogSeal:
    """The seal of one log, from its first line on."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.name, self._key, self._number = path.name, key, 0

    def seal(self, line: bytes) -> bytes:
        """The next line, a JSON object without its end of line, with its code as the last field."""
        code = self._code(line)
        self._number += 1
        return line[:-1] + _BEFORE + code + _AFTER

    def opened(self, line: bytes) -> bytes:
        """The next line without its code. ForgedLog if it is not the one that was sealed as such."""
        body, before, code = line.rpartition(_BEFORE)
        whole = body + b"}"
        if not before or not compare_digest(code, self._code(whole) + _AFTER):
            raise ForgedLog(self.problem(f"line {self._number + 1} of {self.name} was not written by the harness"))
        self._number += 1
        return whole

    @staticmethod
    def problem(what: str) -> str:
        """A sentence for people."""
        return f"{what}; expected that the command leaves the files beside its folder alone, and reports its steps as declared"

    def _code(self, line: bytes) -> bytes:
        said = f"{self.name}\0{self._number}\0".encode() + line
        return blake2b(said, key=self._key, digest_size=_DIGITS // 2).hexdigest().encode()
