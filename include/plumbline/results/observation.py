"""Checks of a provider's uptime and capacity between campaigns. Launchers, archive and analysis share these types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations.providers.launcher_base import WatchKind


@dataclass(frozen=True)
class Observation:
    """One check. `cause`: failure class of a miss, None if the provider answered; `detail`: in words. `seconds`: to the first byte of an answer, or
    to a running node; None for a miss, and where only the API was asked. `gpus` that were asked for, 0 of an endpoint."""

    provider: str
    kind: WatchKind
    at: datetime
    cause: str | None = None
    detail: str = ""
    seconds: float | None = None
    gpus: int = 0
    simulated: bool = False
