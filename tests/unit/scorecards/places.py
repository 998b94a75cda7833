"""Providers for tests of scorecards: eight H100 behind a cluster, or this machine, with whatever a test changes."""

from __future__ import annotations

import json
from typing import Any

from plumbline.declarations import Provider

H100 = {"kind": "nvidia", "product": "NVIDIA-H100-80GB-HBM3", "count": 8}
SIMULATED = {"kind": "simulated", "seed": 1, "nodes": 4, "noise": {"training": {"run": "0.1%"}}}
LOCAL = {"kind": "local", "cpus": [0], "memory": "1GiB", "timeout": "10min"}


def place(name: str = "a", **changed: Any) -> Provider:
    """A provider called `name`; without a `launcher` it is simulated, and its pods are whatever the numbers say."""
    declared = {
        "name": name,
        "cloud": "somewhere",
        "region": "here",
        "instance_type": "host",
        "accelerator": H100,
        "launcher": SIMULATED,
        **changed,
    }
    return Provider.model_validate_json(json.dumps(declared))


def local(name: str = "a", **changed: Any) -> Provider:
    """A provider that is this machine."""
    return place(name, accelerator={"kind": "cpu", "count": 1}, launcher=LOCAL, **changed)
