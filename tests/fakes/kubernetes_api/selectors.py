"""Label and field selectors, as the API server reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.kubernetes_api.refusals import Refused

_PART = re.compile(r"\s*((?:[^,(]|\([^)]*\))+)\s*(?:,|$)")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_EQUAL = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")


def labels_match(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels is selected; an empty selector selects all."""
    return all(_holds(part.strip(), labels) for part in _PART.findall(selector) if part.strip())


def _holds(part: str, labels: Mapping[str, str]) -> bool:
    if found := _SET.match(part):
        key, word, values = found.groups()
        among = labels.get(key) in {value.strip() for value in values.split(",")}
        return among if word == "in" else not among
    if found := _EQUAL.match(part):
        key, sign, value = found.groups()
        return (labels.get(key) == value) == (sign != "!=")
    if part.startswith("!"):
        return part[1:].strip() not in labels
    if " " in part:
        raise Refused(400, f"unable to parse requirement: {part}")
    return part in labels


def fields_match(selector: str, row: Mapping[str, Any]) -> bool:
    """Whether an object is selected by its fields, such as `involvedObject.name=x,status.phase!=Running`."""
    for part in filter(None, selector.split(",")):
        found = _EQUAL.match(part.strip())
        if found is None:
            raise Refused(400, f'invalid field selector "{part}"')
        path, sign, value = found.groups()
        if (_field(row, path) == value) == (sign == "!="):
            return False
    return True


def _field(row: Mapping[str, Any], path: str) -> str:
    found: Any = row
    for key in path.split("."):
        found = (found or {}).get(key)
    return "" if found is None else str(found)
