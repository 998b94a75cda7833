"""What a field should look like, in words, read from a declaration's own JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NAMED = re.compile(r"^([a-z_]+(?:\[\d+\]|\.[A-Za-z_]+)*) ")
_QUOTED = re.compile(r'"([^"]+)"')


def at(data: Any, loc: tuple[int | str, ...]) -> tuple[str | int, ...]:
    """A validation error's location as a path in the data: a union's tag in it names no key and is left out."""
    path: list[str | int] = []
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(data, dict) and isinstance(part, str):
            if part in data:
                data = data[part]
            elif not last:
                continue
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        elif not last or not isinstance(data, dict):
            continue
        path.append(part)
    return tuple(path)


def pointed(message: str, field: tuple[str | int, ...], data: Any) -> tuple[tuple[str | int, ...], str]:
    """The field below `field` that a check's own message begins with or quotes first, and the message without that beginning.

    A check of several fields together is reported for their parent; its sentence says which one is meant.
    """
    while not _has(data, field):
        field = field[:-1]  # a check of a whole union member is reported for its tag, which names no key
    inner = data
    for part in field:
        inner = inner[part]
    named = _NAMED.match(message)
    if named:
        path = tuple(int(part) if part.isdigit() else part for part in re.findall(r"[A-Za-z_]+|\d+", named[1]))
        if _has(inner, path):
            return (*field, *path), message[named.end() :]
    quoted = _QUOTED.search(message)
    if quoted:
        places = [path for path, value in _walk(inner, ()) if path and (path[-1] == quoted[1] or _same(value, quoted[1]))]
        if len(places) == 1:
            return (*field, *places[0]), message
    return field, message


def _has(data: Any, path: tuple[str | int, ...]) -> bool:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _walk(data: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from _walk(value, (*path, key))


def _same(value: Any, text: str) -> bool:
    return isinstance(value, str) and " ".join(value.split()) == text


def expected(schema: dict[str, Any], loc: tuple[int | str, ...]) -> str:
    """The shape that the schema wants at `loc`, such as `an integer, at least 1` or `keys name, version, …`."""
    node = _resolve(schema, schema)
    for part in loc:
        node = _step(schema, node, part)
    return _words(schema, node)


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = {**schema["$defs"][node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
    options = [o for o in node.get("anyOf", ()) if o.get("type") != "null"]
    return {**_resolve(schema, options[0]), **{k: node[k] for k in ("description", "examples") if k in node}} if len(options) == 1 else node


def _step(schema: dict[str, Any], node: dict[str, Any], part: int | str) -> dict[str, Any]:
    mapping = node.get("discriminator", {}).get("mapping", {})
    if part in mapping:
        return _resolve(schema, {"$ref": mapping[part]})
    if isinstance(part, int):
        return _resolve(schema, node.get("items", {}))
    inner = node.get("properties", {}).get(part) or node.get("additionalProperties")
    return _resolve(schema, inner) if isinstance(inner, dict) else {}


def _words(schema: dict[str, Any], node: dict[str, Any]) -> str:
    if "const" in node:
        words = f'"{node["const"]}"'
    elif "enum" in node:
        words = f"one of {', '.join(map(str, node['enum']))}"
    elif "properties" in node:
        return f"keys {', '.join(node['properties'])}"
    elif "discriminator" in node:
        return f"a mapping with kind one of {', '.join(node['discriminator']['mapping'])}"
    else:
        words = {
            "integer": "an integer",
            "number": "a number",
            "string": "text",
            "boolean": "true or false",
            "array": "a list",
            "object": "a mapping",
        }.get(str(node.get("type")), "another value")
        limits = [
            f"{label} {node[key]}"
            for key, label in (
                ("minimum", "at least"),
                ("exclusiveMinimum", "above"),
                ("maximum", "at most"),
                ("exclusiveMaximum", "below"),
            )
            if key in node
        ]
        if node.get("minItems"):
            limits.append(f"with at least {node['minItems']} entr{'y' if node['minItems'] == 1 else 'ies'}")
        if node.get("format") == "date":
            words = "a date such as 2026-01-31"
        if node.get("pattern") and not node.get("examples") and not node.get("description"):
            limits.append(f"matching {node['pattern']}")
        words = ", ".join([words, *limits])
    if node.get("examples"):
        words += f" such as {node['examples'][0]}"
    if node.get("description"):
        words += f" ({node['description']})"
    return words
