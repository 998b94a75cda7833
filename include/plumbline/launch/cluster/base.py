"""What the parts of a cluster launch hand to each other. Objects of the API are plain JSON rows (camelCase, as the API gives them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]

StopReason = Literal[
    "schedule_timeout",  # no node in time (`detail` says what the scheduler or Kueue said last)
    "startup_timeout",  # on a node, but its containers did not start in time
    "image_error",  # the kubelet says that the image cannot be had, and waiting would not change it
    "config_error",  # the kubelet cannot make a container as declared, such as with a Secret that is not there
    "deadline",  # it ran past the trial's timeout and was stopped by us
    "unreachable",  # the API did not answer for longer than the provider's unreachable_timeout
    "refused",  # the API refused the objects; `status` and `detail` are its answer
    "killed",  # Airflow ended the task: cleared, marked, or the worker shut down
]


@dataclass(frozen=True)
class Stop:
    """Why the watch of a launch ended before its pods did. `status` is an HTTP status, for `refused` and `unreachable`."""

    reason: StopReason
    detail: str
    status: int | None = None


@dataclass(frozen=True)
class Seen:
    """Everything that the outside knows of a launch.

    `pods`: the newest copy of each pod, by rank, also of one that is gone by now (then its name is in `gone`: deleted by somebody else).
    `events`: core/v1 Events about these pods. `nodes`: Node objects by name, as they were when the pod started.
    `expected`: pods that the launch asked for.
    """

    expected: int
    pods: tuple[Row, ...] = ()
    gone: frozenset[str] = frozenset()
    events: tuple[Row, ...] = ()
    nodes: Mapping[str, Row] = field(default_factory=dict)
    stop: Stop | None = None
