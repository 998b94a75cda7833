"""What a field should look like, in words, read from a declaration's own JSON Schema."""

from __future__ import annotations

from typing import Any


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
        if node.get("pattern") and not node.get("examples"):
            limits.append(f"matching {node['pattern']}")
        words = ", ".join([words, *limits])
    if node.get("examples"):
        words += f" such as {node['examples'][0]}"
    if node.get("description"):
        words += f" ({node['description']})"
    return words
