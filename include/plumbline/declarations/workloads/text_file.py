"""Text files beside the declarations: their text, and what a section takes from them. `formats.reading.text_file` has their lines."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from plumbline.declarations.base import Declared
from plumbline.declarations.yaml_source import FieldPath, value_at
from plumbline.formats.reading.text_file import UnusableFile

Section = TypeVar("Section", bound=Declared)


def add_content(
    data: Any, field: FieldPath, model: type[Section], file: str, derived: tuple[str, ...], read: Callable[[Section], dict[str, Any]]
) -> list[tuple[FieldPath, str]]:
    """Add to the section at `field` what `read` finds in the file that its key `file` names, under the keys `derived`; problems by field.

    Whatever else is wrong with the section is left alone: its own check reports it."""
    section = value_at(data, field)
    if not isinstance(section, dict):
        return []
    if given := next((name for name in derived if name in section), None):
        return [((*field, given), f"is read from the file; expected {file} and no {given}")]
    try:
        declared = model.model_validate_json(json.dumps(section))
    except (TypeError, ValueError):
        return []
    try:
        section |= read(declared)
    except UnusableFile as error:
        return [((*field, error.field or file), str(error))]
    return []


def deflated(data: bytes) -> str:
    """Compressed, as text that a trial's JSON can hold."""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def inflated(text: str, most: int) -> bytes:
    """The bytes of `deflated`. ValueError or zlib.error if they are damaged or more than `most`."""
    inflate = zlib.decompressobj()
    data = inflate.decompress(base64.b64decode(text, validate=True), most)
    if inflate.unconsumed_tail or not inflate.eof:
        raise ValueError("too large or cut short")
    return data


def read_text(folder: Path, name: str) -> str:
    """A file's text. UnusableFile if it cannot be read."""
    return decode(read_bytes(folder / name, name, f"a file in {folder.name}/"), name)


def read_bytes(file: Path, name: str, expected: str, most: int | None = None, instead: str = "") -> bytes:
    """A file's content. UnusableFile if it cannot be read, or has more than `most` bytes; `instead`: what is expected of a larger one."""
    try:
        if most is not None and (size := file.stat().st_size) > most:
            raise UnusableFile(f"{name} has {size:,} bytes; expected at most {most:,}: {instead}")
        return file.read_bytes()
    except OSError as error:
        raise UnusableFile(f"{name} cannot be read ({error.strerror}); expected {expected}") from None


def decode(data: bytes, name: str) -> str:
    """The text of a file's bytes. UnusableFile if they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFile(f"{name} is not UTF-8 text ({error.reason} at byte {error.start}); expected a text file") from None
