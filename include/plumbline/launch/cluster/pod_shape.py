"""Fields of a pod that the Kubernetes API does not know: the server drops them in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from plumbline.declarations.yaml_positions import Path_, dotted
from plumbline.launch.cluster.base import Row


def unknown_fields(pod: Row) -> list[str]:
    """Paths of fields that the API's client has no model for, such as `spec.affinity.nodeAfinity`. Imports the client (two seconds)."""
    from kubernetes.client import models

    return [dotted(where) for where in _unknown(pod, "V1Pod", models, ())]


def _unknown(value: Any, kind: str, models: Any, where: Path_) -> Iterator[Path_]:
    if listed := re.fullmatch(r"list\[(.+)\]", kind):
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(item, listed[1], models, (*where, i))
        return
    model = getattr(models, kind, None)
    if model is None or not isinstance(value, dict):
        return  # text, numbers, and mappings with keys of the user's own
    kinds = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
    for key, inner in value.items():
        if key not in kinds:
            yield (*where, key)
        else:
            yield from _unknown(inner, kinds[key], models, (*where, key))
