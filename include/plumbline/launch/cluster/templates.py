"""The YAML templates in `k8s/workloads/`: what every launch has in common, with the reason beside each default."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import yaml

from plumbline.declarations.places import REPOSITORY
from plumbline.launch.cluster.base import Row

_FOLDER = REPOSITORY / "k8s" / "workloads"


def template(name: str) -> Row:
    """A fresh copy of the object in `k8s/workloads/<name>.yaml`, for the caller to fill in."""
    row: Row = copy.deepcopy(_read(name))
    return row


@cache
def _read(name: str) -> Any:
    return yaml.safe_load((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
