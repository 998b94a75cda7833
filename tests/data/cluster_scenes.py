"""What a cluster showed of launches: recorded from a real one, or written from the documented shapes (each file says which)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from plumbline.launch.cluster.observe.observation import LaunchObservation, StopCause, StopReason

_FOLDER = Path(__file__).parent / "cluster"
NAMES = sorted(path.stem for path in _FOLDER.glob("*.json"))


def raw(name: str) -> dict[str, Any]:
    """The scene as its file holds it."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def scene(name: str, stop: tuple[StopReason, str] | StopCause | None = None) -> LaunchObservation:
    """What was seen in the scene, and why the watch ended, if we ended it."""
    row = raw(name)
    seen = LaunchObservation(row["expected"], tuple(row["pods"]), frozenset(row["gone"]), tuple(row["events"]), row["nodes"])
    return replace(seen, stop=StopCause(*stop) if isinstance(stop, tuple) else stop)


def requested_at(name: str) -> datetime:
    """When the launch was asked for, by the launcher's clock."""
    return datetime.fromisoformat(raw(name)["requested_at"].replace("Z", "+00:00"))
