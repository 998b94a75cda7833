"""In what two specifications differ, and why that difference forbids a comparison: one list of reasons for every room that compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ALWAYS = {
    "kind": "training and inference are never compared",
    "workload": "different workloads measure different things",
    "version": "a workload's version is raised when what it measures changes",
    "protocol": "the harness measures differently",
    "engine": "a different engine is a different product",
}
"""Parts of a series key that must be the same wherever numbers are put side by side, with the reason."""
SOURCE = "the two never mix"
"""Why measured, simulated and imported numbers are kept apart."""

_WHY = {
    "precision": "cheaper arithmetic is another product",
    "model.precision": "cheaper arithmetic is another product",
    "model": "another model computes something else",
    "batch": "another batch is other work in each step",
    "parallelism": "the work is spread differently",
    "requests.input_tokens": "longer prompts take longer",
    "requests.output_tokens": "longer answers take longer",
    "requests.exact_output": "answers that may end earlier are not of one length",
    "server.client_placement": "the network between client and server is part of the numbers",
    "replicas": "one server on a node and one for each of its accelerators do different work",
    "server.prefix_cache": "a prefix that is cached is not computed",
    "phases": "another load is another question",
}


def flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of nested plain data with its path, such as `model.precision` or `phases[0].duration`."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, (list, tuple)) and data:
        for i, value in enumerate(data):
            yield from flat(value, f"{path}[{i}]")
    else:
        yield path, data


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each field that two specifications do not share, with both values; "absent" where one does not have it. Ordered by field."""
    before, after = dict(flat(old)), dict(flat(new))
    for field in sorted(before.keys() | after.keys()):
        values = [told.get(field, "absent") for told in (before, after)]
        if values[0] != values[1]:
            yield field, values[0], values[1]


def reason_of(field: str) -> str:
    """Why numbers that differ in this field of their specification are not comparable: by the longest name that the field begins with."""
    fits = (name for name in _WHY if field == name or field.startswith((f"{name}.", f"{name}[")))
    return _WHY.get(max(fits, key=len, default=""), "the trials were asked for something else")
