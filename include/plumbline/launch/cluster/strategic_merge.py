"""Strategic merge patches, as the Kubernetes API applies them to a pod. Pure.

No library of the Python registry does this: the API's clients send patches, and the server merges them. A launch needs the merged pod before
there is an object on a server: as the template of a JobSet, or in several copies of a gang.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from plumbline.declarations.pod_patch import DIRECTIVE, MERGE_KEYS
from plumbline.declarations.yaml_positions import Path_, dotted


def merged(row: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
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
            result[key] = merged(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            result[key] = _list(before if isinstance(before, list) else [], value, MERGE_KEYS[key])
            if not result[key]:
                del result[key]
        else:
            result[key] = copy.deepcopy(value)
    return result


def _list(entries: list[dict[str, Any]], patches: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    result = copy.deepcopy(entries)
    for patch in patches:
        at = next((i for i, entry in enumerate(result) if entry.get(key) == patch[key]), None)
        if patch.get(DIRECTIVE) == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(merged({}, patch))
        else:
            result[at] = merged(result[at], patch)
    return result


def differences(before: Any, after: Any, where: Path_ = ()) -> Iterator[tuple[str, Any, Any]]:
    """Field, value before and value after of everything that differs; None where there is none. Entries of lists are named by their key."""
    key = MERGE_KEYS.get(str(where[-1])) if where else None
    if isinstance(before, list | None) and isinstance(after, list | None) and key is not None:
        before, after = ({str(entry[key]): entry for entry in side or ()} for side in (before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from differences(before.get(name), after.get(name), (*where, name))
    elif before != after:
        yield dotted(where), before, after
