"""What is wrong with a file of declarations: where it is, and what was expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.any_workload import OF_TASK
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.declarations.yaml_source import FieldPath, expected_shape, format_path, locate, locate_in_message


@dataclass(frozen=True, order=True)
class Problem:
    """One error in a file. `message` includes what was expected."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.field + ': ' if self.field else ''}{self.message}"


class DeclarationError(ValueError):
    """Every problem of all files at once."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


def display_path(path: Path) -> str:
    """Relative to the working folder or the repository if it is below one of them."""
    for base in (Path.cwd(), REPOSITORY):
        if base is not None and path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def problem_at(path: Path, lines: dict[FieldPath, int], field: FieldPath, message: str) -> Problem:
    """The problem of a field; the first line where the file does not have it."""
    return Problem(display_path(path), lines.get(field, 1), format_path(field), message)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(mode="validation")


_UNKNOWN_TAG = ("union_tag_invalid", "union_tag_not_found")


def problems_of(path: Path, model: type[BaseModel], data: Any, lines: dict[FieldPath, int], error: ValidationError) -> Iterator[Problem]:
    """What pydantic refused, a sentence each, with the line of its field."""
    schema = _schema(model)
    items = error.errors(include_url=False)
    # Which keys a training workload has depends on its task.
    items = [item for item in items if item["loc"] == ("task",) and item["type"] in _UNKNOWN_TAG] or items
    misspelt = {
        (item["loc"][:-1], near)
        for item in items
        if item["type"] == "extra_forbidden"
        for near in get_close_matches(str(item["loc"][-1]), expected_shape(schema, item["loc"][:-1]).removeprefix("keys ").split(", "), n=1)
    }
    for item in items:
        loc = item["loc"]
        if item["type"] == "missing" and (loc[:-1], loc[-1]) in misspelt:
            continue  # reported as an unknown key
        if item["type"] == "too_short" and any(other["loc"][: len(loc)] == loc and other is not item for other in items):
            continue  # too short only without its invalid entries
        field = locate(data, loc)
        if item["type"] == "value_error":
            field, sentence = locate_in_message(item["msg"].removeprefix("Value error, "), field, data)
        elif item["type"] in _UNKNOWN_TAG:
            kinds = str(item["ctx"].get("expected_tags", "")).replace("'", "") or expected_shape(schema, loc).rpartition("one of ")[2]
            problem = f'"{item["ctx"]["tag"]}" is not known' if "tag" in item["ctx"] else "is missing"
            field = locate(data, (*loc, str(item["ctx"]["discriminator"]).strip("'")))
            others = OF_TASK if model is TrainingWorkload and field == ("task", "kind") else ()
            declarable = [kind for kind in kinds.split(", ") if kind != "client_pod"]  # which is made of two declarations
            sentence = f"{problem}; expected one of {', '.join((*declarable, *others))}"
        else:
            sentence = _format_problem(item["type"], item["msg"], item.get("input"), field, schema, loc)
        line = next(lines[field[:n]] for n in range(len(field), -1, -1) if field[:n] in lines)
        yield Problem(display_path(path), line, format_path(field), sentence)


def _format_problem(kind: str, message: str, value: object, field: FieldPath, schema: dict[str, Any], loc: tuple[int | str, ...]) -> str:
    if kind == "missing":
        return f"is missing; expected {expected_shape(schema, loc)}"
    if kind == "extra_forbidden":
        known = expected_shape(schema, loc[:-1])
        near = get_close_matches(str(field[-1]), known.removeprefix("keys ").split(", "), n=1)
        return f"unknown key; {f'did you mean {near[0]}? ' if near else ''}expected {known}"
    written = json.dumps(value) if not isinstance(value, (dict, list)) else f"a {'mapping' if isinstance(value, dict) else 'list'}"
    why = f" ({message[0].lower()}{message[1:]})" if kind != "string_pattern_mismatch" else ""  # the shape is clearer than the pattern
    return f"{written} is not valid{why}; expected {expected_shape(schema, loc)}"
