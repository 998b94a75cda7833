"""YAML as plain data with line numbers, and the expected shape of a field for error messages."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

FieldPath = tuple[str | int, ...]
_MAX_FIELDS = 20_000
_MAX_DEPTH = 64
_SURELY_FLAT = 2_000
"""Openings of lists and mappings up to which the composer, which recurses in C without a limit, cannot overflow the stack."""


class UnreadableYaml(ValueError):
    """YAML that no declaration may use. `line`: where."""

    def __init__(self, line: int, message: str, field: str = "") -> None:
        super().__init__(message)
        self.line, self.field = line, field


# libyaml parses ten times as fast as Python; the wheels of PyYAML have it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Scalars(_Loader):  # type: ignore[misc]
    """YAML 1.2's scalars: `off`, `on`, `yes`, `02:00` and dates stay text."""

    # Its own, so that the base class keeps YAML 1.1's.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|false)$", "tf"),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9][0-9_]*)?(?:\.[0-9_]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$", "-+0123456789."),
    ("null", r"^(?:~|null|)$", "~n"),
):
    for _letter in [*_first, ""] if _tag == "null" else _first:
        _Scalars.yaml_implicit_resolvers.setdefault(_letter, []).append((f"tag:yaml.org,2002:{_tag}", re.compile(_pattern)))


def read_yaml(path: Path) -> tuple[Any, dict[FieldPath, int]]:
    """The data of a YAML file and the line (from 1) of each path in it. Raises UnreadableYaml."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableYaml(1, f"cannot be read ({error}); expected a UTF-8 YAML file") from error
    data, lines = _parse(text)
    return pickle.loads(data), lines


@lru_cache(maxsize=512)  # every page reads all declarations again, and they seldom change
def _parse(text: str) -> tuple[bytes, dict[FieldPath, int]]:
    """The data pickled, so that each reader gets its own at a fraction of what deepcopy takes."""
    try:
        if sum(map(text.count, ("[", "{", "- ", "? "))) > _SURELY_FLAT:
            _check_depth(text)
        node = yaml.compose(text, Loader=_Scalars)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableYaml(mark.line + 1 if mark else 1, f"is not YAML: {error.problem or error}; expected `key: value` lines") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableYaml(1, f"is not YAML: {error}; expected `key: value` lines") from error
    if node is None:
        raise UnreadableYaml(1, "is empty; expected a declaration")
    lines: dict[FieldPath, int] = {}
    return pickle.dumps(_to_data(node, (), lines, ())), lines


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Scalars):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise UnreadableYaml(line, f"is nested too deeply; expected at most {_MAX_DEPTH} levels")


def _to_data(node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int], open_: tuple[int, ...]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(lines) > _MAX_FIELDS:
        raise UnreadableYaml(
            line, f"unfolds to more than {_MAX_FIELDS} fields through its aliases; expected a declaration", format_path(path[:2])
        )
    if len(path) > _MAX_DEPTH:
        raise UnreadableYaml(line, f"is nested too deeply; expected at most {_MAX_DEPTH} levels", format_path(path[:2]))
    if id(node) in open_:
        raise UnreadableYaml(line, "refers to itself through an alias; expected a finite tree", format_path(path))
    if isinstance(node, yaml.MappingNode):
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise UnreadableYaml(at, "has a key that is not plain text; expected `key: value` lines", format_path(path))
            key = str(key_node.value)
            if key == "<<":
                raise UnreadableYaml(at, "merge keys (<<) are not supported; expected the keys themselves", format_path(path))
            if key in data:
                raise UnreadableYaml(at, f'key "{key}" occurs twice; expected one', format_path((*path, key)))
            lines[(*path, key)] = at
            data[key] = _to_data(value_node, (*path, key), lines, (*open_, id(node)))
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_to_data(item, (*path, i), lines, (*open_, id(node))) for i, item in enumerate(node.value)]
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except yaml.MarkedYAMLError as error:
        raise UnreadableYaml(line, f"{error.problem}; expected a plain value", format_path(path)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableYaml(line, f"{error}; expected a plain value", format_path(path)) from error


def format_path(path: FieldPath) -> str:
    """`("phases", 1, "arrivals")` as `phases[1].arrivals`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


_FIELD_FIRST = re.compile(r"^([a-z_]+(?:\[\d+\]|\.[A-Za-z_]+)*) ")
_QUOTED = re.compile(r'"([^"]+)"')
_MISSING = object()


def locate(data: Any, loc: tuple[int | str, ...]) -> tuple[str | int, ...]:
    """A validation error's location as a path in the data, without unions' tags."""
    path: list[str | int] = []
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(data, dict) and isinstance(part, str):
            if part in data and not last and not isinstance(data[part], dict | list):
                continue  # a tag that is spelt like a key
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


def locate_in_message(message: str, field: tuple[str | int, ...], data: Any) -> tuple[tuple[str | int, ...], str]:
    """The field below `field` that a check's own message begins with or quotes first, and the message without that beginning.

    Pydantic reports a check of several fields for their parent.
    """
    while not _has_path(data, field):
        field = field[:-1]  # Pydantic reports a check of a union member for its tag, which is not a key
    inner = value_at(data, field)
    match = _FIELD_FIRST.match(message)
    if match:
        path = tuple(int(part) if part.isdigit() else part for part in re.findall(r"[A-Za-z_]+|\d+", match[1]))
        if _has_path(inner, path):
            return (*field, *path), message[match.end() :]
    quoted = _QUOTED.search(message)
    if quoted:
        places = [path for path, value in _walk_values(inner, ()) if path and (path[-1] == quoted[1] or _same_text(value, quoted[1]))]
        if len(places) == 1:
            return (*field, *places[0]), message
    return field, message


def value_at(data: Any, path: FieldPath, missing: Any = None) -> Any:
    """What the data has at a path; `missing` if there is no such place."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return missing
    return data


def _has_path(data: Any, path: FieldPath) -> bool:
    return value_at(data, path, _MISSING) is not _MISSING


def _walk_values(data: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from _walk_values(value, (*path, key))


def _same_text(value: Any, text: str) -> bool:
    return isinstance(value, str) and " ".join(value.split()) == text


def expected_shape(schema: dict[str, Any], loc: tuple[int | str, ...]) -> str:
    """The schema's shape at `loc`, such as `an integer, at least 1` or `keys name, version, …`."""
    node = _resolve(schema, schema)
    for part in loc:
        node = _descend(schema, node, part)
    return _describe(schema, node)


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = {**schema["$defs"][node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
    options = [o for o in node.get("anyOf", ()) if o.get("type") != "null"]
    return {**_resolve(schema, options[0]), **{k: node[k] for k in ("description", "examples") if k in node}} if len(options) == 1 else node


def _descend(schema: dict[str, Any], node: dict[str, Any], part: int | str) -> dict[str, Any]:
    mapping = node.get("discriminator", {}).get("mapping", {})
    if part in mapping:
        return _resolve(schema, {"$ref": mapping[part]})
    if "oneOf" in node and not mapping:  # a union of classes, each its own tag, or of unions, whose tags are not keys
        if any(option.get("$ref") == f"#/$defs/{part}" for option in node["oneOf"]):
            return _resolve(schema, {"$ref": f"#/$defs/{part}"})
        kinds = [option for option in node["oneOf"] if part in option.get("discriminator", {}).get("mapping", {})]
        return _descend(schema, kinds[0], part) if kinds else node
    if isinstance(part, int):
        return _resolve(schema, node.get("items", {}))
    inner = node.get("properties", {}).get(part) or node.get("additionalProperties")
    return _resolve(schema, inner) if isinstance(inner, dict) else {}


def _describe(schema: dict[str, Any], node: dict[str, Any]) -> str:
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
