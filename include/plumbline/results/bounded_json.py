"""Parse JSON from untrusted files with bounds on bytes, values and depth."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from plumbline.metrics.units import BYTES

MAX_BYTES = 8 * 2**20
"""Most bytes of one JSON object in a store; a document of 512 GPUs takes a quarter."""
MAX_VALUES = 250_000
"""Most commas, braces and brackets together: memory for parsing grows with them, not with the bytes."""
MAX_KEYS = 5_000
"""Most keys of one object, and of a trial's specification: each wrong one costs an error of a kilobyte."""
MAX_DEPTH = 48
_INTEGERS = range(-(2**63), 2**63)
Model = TypeVar("Model", bound=BaseModel)


class InvalidResult(ValueError):
    """A stored result cannot be used; the message names the file and why."""


def check_size(size: int, where: str, most: int = MAX_BYTES) -> None:
    """InvalidResult if an object has more than `most` bytes."""
    if size > most:
        raise InvalidResult(f"{where} is larger than {format_size(most)}, the limit for such a file")


def format_size(count: int) -> str:
    """A number of bytes in the largest unit that it has at least one of, such as `8 MiB`."""
    unit = next((name for name in ("TiB", "GiB", "MiB", "KiB") if count >= BYTES[name]), "B")
    return f"{count / BYTES[unit]:.4g} {unit}"


def parse_object(raw: bytes, where: str, most: int = MAX_BYTES, most_keys: int = MAX_KEYS) -> dict[str, Any]:
    """The JSON object in `raw`; InvalidResult, naming `where` it lies, if it is something else or exceeds a bound.

    Peak memory is bounded by `most` and MAX_VALUES. Integers have at most 64 bits and text has no NUL, because PostgreSQL stores neither."""
    parsed = parse_value(raw, where, most, most_keys)
    if not isinstance(parsed, dict):
        raise InvalidResult(f"{where}: not a JSON object (but a {type(parsed).__name__})")
    return parsed


def parse_value(raw: bytes, where: str, most: int = MAX_BYTES, most_keys: int = MAX_KEYS) -> Any:
    """Any JSON value within the bounds of `parse_object`."""
    check_size(len(raw), where, most)
    if (values := sum(map(raw.count, (b",", b"[", b"{")))) > MAX_VALUES:
        raise InvalidResult(f"{where} has {values:,} values; expected at most {MAX_VALUES:,}")
    try:
        parsed = from_json(raw, cache_strings="none")  # NaN and infinity are for the model to refuse, which names their field
    except ValueError as error:
        if "recursion limit" in str(error):
            raise InvalidResult(f"{where} is nested too deeply; expected at most {MAX_DEPTH} levels") from None
        raise InvalidResult(f"{where}: not a JSON object ({error})") from error
    _check_values(parsed, where, most_keys)
    return parsed


def parse_model(kind: type[Model], raw: bytes, where: str) -> Model:
    """`raw` as this model, after the bounds of `parse_object`; InvalidResult names the first invalid field."""
    parse_object(raw, where)
    return validate_model(kind, raw, where)


def validate_model(kind: type[Model], raw: bytes | str, where: str) -> Model:
    """`raw`, whose bounds were checked, as this model; InvalidResult names the first invalid field."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise InvalidResult(f"{where}: {first_error(error)}") from error


def first_error(error: ValidationError) -> str:
    """The first problem of a model, with its field."""
    item = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, item['loc']))}{': ' if item['loc'] else ''}{item['msg'].removeprefix('Value error, ')}"


def _check_values(top: Any, where: str, most_keys: int) -> None:
    # With a stack of its own: what is nested deeply must not end in a RecursionError here either.
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), top if isinstance(top, (dict, list)) else [top])]
    keys = 0
    while todo:
        path, value = todo.pop()
        if len(path) >= MAX_DEPTH:
            raise InvalidResult(f"{where} is nested too deeply; expected at most {MAX_DEPTH} levels")
        keys += len(value) if path[:1] == ("trial",) else 0
        if keys > MAX_KEYS or (isinstance(value, dict) and len(value) > most_keys):
            raise InvalidResult(f"{where}: {_format_location(path)} has more than {most_keys:,} values; expected at most that")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, (dict, list)):
                todo.append(((*path, key), item))
            elif isinstance(item, int) and item not in _INTEGERS:
                raise InvalidResult(
                    f"{where}: {_format_location((*path, key))} is an integer of {item.bit_length()} bits; expected at most 64"
                )
            if (isinstance(item, str) and "\0" in item) or (isinstance(key, str) and "\0" in key):
                raise InvalidResult(
                    f"{where}: {_format_location((*path, key))} holds a NUL character; expected text without one".replace("\0", "\\0")
                )


def _format_location(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path)) or "the document"
