"""Quantities, and what pods ask for against a ResourceQuota."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tests.fakes.kubernetes_api.refusals import Refused

Row = dict[str, Any]
_SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def amount(text: Any) -> float:
    """A quantity such as 8, 500m or 64Gi as a number."""
    found = re.match(r"^([0-9.]+)([a-zA-Z]*)$", str(text))
    if found is None or found[2] not in _SUFFIXES:
        raise Refused(400, f"quantities must match the regular expression, got {text!r}")
    return float(found[1]) * _SUFFIXES[found[2]]


def used(pods: Iterable[Row], hard: Row) -> dict[str, float]:
    """What live pods use of a quota."""
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    return {key: sum(asks(pod, key) for pod in live) for key in hard}


def check(pod: Row, quota: Row, pods: Iterable[Row]) -> None:
    """Refused (403) if the pod and those that are there ask for more than the quota allows."""
    hard = quota["spec"]["hard"]
    taken = used(pods, hard)
    over = [key for key in hard if asks(pod, key) and taken[key] + asks(pod, key) > amount(hard[key])]
    if over:
        said = ((word, ",".join(f"{key}={of(key)}" for key in over)) for word, of in _words(pod, taken, hard))
        listed = ", ".join(f"{word}: {values}" for word, values in said)
        name, held = pod["metadata"]["name"], quota["metadata"]["name"]
        raise Refused(403, f'pods "{name}" is forbidden: exceeded quota: {held}, {listed}', name=name, kind="pods")


def _words(pod: Row, taken: dict[str, float], hard: Row) -> list[tuple[str, Callable[[str], str]]]:
    return [
        ("requested", lambda key: f"{asks(pod, key):g}"),
        ("used", lambda key: f"{taken[key]:g}"),
        ("limited", lambda key: str(hard[key])),
    ]


def asks(pod: Row, key: str) -> float:
    """What a pod counts for against a key of a quota: pods, requests.cpu, limits.memory, requests.nvidia.com/gpu…"""
    if key in ("pods", "count/pods"):
        return 1.0
    kind, _, resource = key.partition(".")
    if kind not in ("requests", "limits"):
        kind, resource = "requests", key
    total = 0.0
    for container in pod["spec"]["containers"]:
        asked = container.get("resources") or {}
        total += amount((asked.get(kind) or {}).get(resource) or (asked.get("limits") or {}).get(resource) or 0)
    return total
