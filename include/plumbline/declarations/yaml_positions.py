"""YAML as plain data plus the line of every field, so that an error can say where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

Path_ = tuple[str | int, ...]
_MOST_FIELDS = 20_000


class Unreadable(ValueError):
    """The file is not YAML that a declaration may use; `line` is where."""

    def __init__(self, line: int, message: str, field: str = "") -> None:
        super().__init__(message)
        self.line, self.field = line, field


class _Scalars(yaml.SafeLoader):
    """YAML 1.2's scalars: `off`, `on`, `yes`, `02:00` and dates stay text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (its own, so that the base class keeps YAML 1.1's)


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|false)$", "tf"),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9][0-9_]*)?(?:\.[0-9_]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$", "-+0123456789."),
    ("null", r"^(?:~|null|)$", "~n"),
):
    for _letter in [*_first, ""] if _tag == "null" else _first:
        _Scalars.yaml_implicit_resolvers.setdefault(_letter, []).append((f"tag:yaml.org,2002:{_tag}", re.compile(_pattern)))


def read(path: Path) -> tuple[Any, dict[Path_, int]]:
    """The data of a YAML file and the line (from 1) of each path in it.

    Raises Unreadable for what YAML itself, an encoding, a repeated key or a self-referring alias makes unusable.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(1, f"cannot be read ({error}); expected a UTF-8 YAML file") from error
    try:
        node = yaml.compose(text, Loader=_Scalars)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(mark.line + 1 if mark else 1, f"is not YAML: {error.problem or error}; expected `key: value` lines") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(1, f"is not YAML: {error}; expected `key: value` lines") from error
    if node is None:
        raise Unreadable(1, "is empty; expected a declaration")
    lines: dict[Path_, int] = {}
    return _plain(node, (), lines, ()), lines


def _plain(node: yaml.Node, path: Path_, lines: dict[Path_, int], open_: tuple[int, ...]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(lines) > _MOST_FIELDS:
        raise Unreadable(line, f"unfolds to more than {_MOST_FIELDS} fields through its aliases; expected a declaration", dotted(path[:2]))
    if id(node) in open_:
        raise Unreadable(line, "refers to itself through an alias; expected a finite tree", dotted(path))
    if isinstance(node, yaml.MappingNode):
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            at = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise Unreadable(at, "has a key that is not plain text; expected `key: value` lines", dotted(path))
            key = str(key_node.value)
            if key == "<<":
                raise Unreadable(at, "merge keys (<<) are not read; expected the keys themselves", dotted(path))
            if key in data:
                raise Unreadable(at, f'the key "{key}" stands twice; expected it once', dotted((*path, key)))
            lines[(*path, key)] = at
            data[key] = _plain(value_node, (*path, key), lines, (*open_, id(node)))
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, i), lines, (*open_, id(node))) for i, item in enumerate(node.value)]
    loader = _Scalars("")
    try:
        return loader.construct_object(node)
    except yaml.MarkedYAMLError as error:
        raise Unreadable(line, f"{error.problem}; expected a plain value", dotted(path)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(line, f"{error}; expected a plain value", dotted(path)) from error
    finally:
        loader.dispose()


def dotted(path: Path_) -> str:
    """`("phases", 1, "arrivals")` as `phases[1].arrivals`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
