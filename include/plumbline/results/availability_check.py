"""Checks of a provider's uptime and capacity between campaigns. Launchers, archive and analysis share these types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations.providers.launcher_base import WatchKind

MAINTENANCE = "maintenance"
"""Cause of a check of nodes that were taken out of service: neither up nor down."""


@dataclass(frozen=True)
class AvailabilityCheck:
    """One check. `cause`: failure class of a miss or MAINTENANCE, None if the provider answered; `detail`: in words. `seconds`: to an answer, or
    to a running node; None for a miss, and where only the API was asked for capacity. `gpus` that were asked for, 0 of an uptime."""

    provider: str
    kind: WatchKind
    at: datetime
    cause: str | None = None
    detail: str = ""
    seconds: float | None = None
    gpus: int = 0
    simulated: bool = False
