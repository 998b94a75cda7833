"""JSON that others wrote, bounded before it is read: bytes, values and depth, then integers and characters that a database cannot hold."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from plumbline.declarations.units import BYTES

MOST_BYTES = 8 * 2**20
"""Of one JSON object in a store: a document of 512 GPUs has about a quarter of it."""
MOST_VALUES = 250_000
"""Commas, braces and brackets together: what parsing costs in memory grows with them, not with the bytes."""
MOST_KEYS = 5_000
"""Of one object, and of a trial's specification as a whole: each that is wrong costs an error of a kilobyte."""
MOST_DEPTH = 48
_INTEGERS = range(-(2**63), 2**63)
Model = TypeVar("Model", bound=BaseModel)


class BadResult(ValueError):
    """A stored result cannot be used; the message names the file and why."""


def check_size(found: int, where: str, most: int = MOST_BYTES) -> None:
    """BadResult if an object of so many bytes is more than is read of it."""
    if found > most:
        raise BadResult(f"{where} is larger than {size(most)}, the most that is read of such a file")


def size(count: int) -> str:
    """A number of bytes in the largest unit that it has at least one of, such as `8 MiB`."""
    unit = next((name for name in ("TiB", "GiB", "MiB", "KiB") if count >= BYTES[name]), "B")
    return f"{count / BYTES[unit]:.4g} {unit}"


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file, read in pieces."""
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            summed.update(piece)
    return summed.hexdigest()


def json_object(raw: bytes, where: str, most: int = MOST_BYTES, most_keys: int = MOST_KEYS) -> dict[str, Any]:
    """The JSON object in `raw`; BadResult, naming `where` it lies, if it is none or exceeds a bound.

    Peak memory is bounded by `most` and MOST_VALUES. Integers have at most 64 bits and text has no NUL, because PostgreSQL stores neither.
    """
    found = json_value(raw, where, most, most_keys)
    if not isinstance(found, dict):
        raise BadResult(f"{where}: not a JSON object (but a {type(found).__name__})")
    return found


def json_value(raw: bytes, where: str, most: int = MOST_BYTES, most_keys: int = MOST_KEYS) -> Any:
    """Any JSON value, within the same bounds."""
    check_size(len(raw), where, most)
    if (values := sum(map(raw.count, (b",", b"[", b"{")))) > MOST_VALUES:
        raise BadResult(f"{where} has {values:,} values; expected at most {MOST_VALUES:,}")
    try:
        found = from_json(raw, cache_strings="none")  # NaN and infinity are for the model to refuse, which names their field
    except ValueError as error:
        if "recursion limit" in str(error):
            raise BadResult(f"{where} is nested too deeply; expected at most {MOST_DEPTH} levels") from None
        raise BadResult(f"{where}: not a JSON object ({error})") from error
    _check_values(found, where, most_keys)
    return found


def model(kind: type[Model], raw: bytes, where: str, most: int = MOST_BYTES) -> Model:
    """`raw` as this model, after the bounds of `json_object`; BadResult names the first field that does not hold."""
    json_object(raw, where, most)
    return validated(kind, raw, where)


def validated(kind: type[Model], raw: bytes, where: str) -> Model:
    """`raw`, whose bounds were checked, as this model; BadResult names the first field that does not hold."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise BadResult(f"{where}: {first(error)}") from error


def first(error: ValidationError) -> str:
    """The first problem of a model, with its field."""
    item = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, item['loc']))}{': ' if item['loc'] else ''}{item['msg'].removeprefix('Value error, ')}"


def _check_values(top: Any, where: str, most_keys: int) -> None:
    # With a stack of its own: what is nested deeply must not end in a RecursionError here either.
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), top if isinstance(top, (dict, list)) else [top])]
    asked = 0
    while todo:
        path, value = todo.pop()
        if len(path) >= MOST_DEPTH:
            raise BadResult(f"{where} is nested too deeply; expected at most {MOST_DEPTH} levels")
        asked += len(value) if path[:1] == ("trial",) else 0
        if asked > MOST_KEYS or (isinstance(value, dict) and len(value) > most_keys):
            raise BadResult(f"{where}: {_name(path)} has more than {most_keys:,} values; expected at most that")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, (dict, list)):
                todo.append(((*path, key), item))
            elif isinstance(item, int) and item not in _INTEGERS:
                raise BadResult(f"{where}: {_name((*path, key))} is an integer of {item.bit_length()} bits; expected at most 64")
            if (isinstance(item, str) and "\0" in item) or (isinstance(key, str) and "\0" in key):
                raise BadResult(f"{where}: {_name((*path, key))} holds a NUL character; expected text without one".replace("\0", "\\0"))


def _name(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path)) or "the document"
