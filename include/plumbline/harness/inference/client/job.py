"""What a process that sends a share of a phase's load is given, and what it brings home."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.target import Settings, Target

READY = b"ready\n"


@dataclass(frozen=True)
class Job:
    """A share of the load: the requests `mine` with their bodies; `fd` is the columns' file, `cpu` the core to keep to."""

    fd: int
    load: PhaseLoad
    mine: NDArray[np.int64]
    bodies: dict[int, bytes]
    target: Target
    settings: Settings
    timeout_s: float
    cpu: int | None


@dataclass(frozen=True)
class Outcome:
    """What does not stand in the columns."""

    details: dict[int, str]
    capped: int
    cpu_s: float


def lives() -> bool:
    """Whether the server lives is the parent's to ask; it says so in the columns."""
    return True


def portable(target: Target, k: int) -> Target:
    """The target as it can be given to the process that sends share `k`: one server, the same for each request of the share."""
    address = target.addresses[k % len(target.addresses)]
    return replace(target, address=address, replicas=(), headers=dict(target.headers), running=lives)
