"""Strategic merge patches on a pod, their differences, and unknown fields."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from plumbline.declarations.providers.pod_patch import DIRECTIVE, MERGE_KEYS
from plumbline.declarations.yaml_source import FieldPath, format_path
from plumbline.launch.cluster.names import Row


def apply_patch(row: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A new row: mappings merge, null removes, lists with a merge key merge by it, other lists are replaced.

    `$patch: delete` removes a list's entry, `$patch: replace` replaces a mapping. The patch must have passed `check_patch`.
    """
    if patch.get(DIRECTIVE) == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != DIRECTIVE}
    result = copy.deepcopy(dict(row))
    for key, value in patch.items():
        before = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = apply_patch(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            result[key] = _merge_list(before if isinstance(before, list) else [], value, MERGE_KEYS[key])
            if not result[key]:
                del result[key]
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merge_list(entries: list[dict[str, Any]], patches: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    result = copy.deepcopy(entries)
    for patch in patches:
        at = next((i for i, entry in enumerate(result) if entry.get(key) == patch[key]), None)
        if patch.get(DIRECTIVE) == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(apply_patch({}, patch))
        else:
            result[at] = apply_patch(result[at], patch)
    return result


def differences(before: Any, after: Any, where: FieldPath = ()) -> Iterator[tuple[str, Any, Any]]:
    """Field, value before and value after of each difference; None for a missing value. Entries of lists are named by their key."""
    key = MERGE_KEYS.get(str(where[-1])) if where else None
    if isinstance(before, list | None) and isinstance(after, list | None) and key is not None:
        before, after = ({str(entry[key]): entry for entry in side or ()} for side in (before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from differences(before.get(name), after.get(name), (*where, name))
    elif before != after:
        yield format_path(where), before, after


def unknown_fields(pod: Row) -> list[str]:
    """Paths of fields that the API's client has no model for, such as a misspelt spec.affinity.nodeAfinity. Imports the client (two seconds)."""
    from kubernetes.client import models

    return [format_path(where) for where in _unknown_paths(pod, "V1Pod", models, ())]


def _unknown_paths(value: Any, kind: str, models: Any, where: FieldPath) -> Iterator[FieldPath]:
    if listed := re.fullmatch(r"list\[(.+)\]", kind):
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown_paths(item, listed[1], models, (*where, i))
        return
    model = getattr(models, kind, None)
    if model is None or not isinstance(value, dict):
        return  # text, numbers, and mappings with keys of the user's own
    kinds = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
    for key, inner in value.items():
        if key not in kinds:
            yield (*where, key)
        else:
            yield from _unknown_paths(inner, kinds[key], models, (*where, key))
