"""The operations log: incidents, support tickets, quota requests and maintenance as people noted them. Archive and analysis share these types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime

from plumbline.metrics.printable import printable

LogKind = Literal["incident", "ticket", "quota", "maintenance"]
Whose = Literal["provider", "us", "unknown"]
"""Whose fault it is: what is ours breaks no promise, and of incidents only what is the provider's does."""


@dataclass(frozen=True)
class LogEntry:
    """One entry. `opened`: begin of an incident or of maintenance, else when the provider was asked. `answered`: its first answer.
    `solved`: end of an incident or of maintenance, the answer that settled a request; None while it is open. `severity` and `reference`
    (its number there) as the provider names them."""

    provider: str
    kind: LogKind
    what: str
    opened: AwareDatetime
    answered: AwareDatetime | None = None
    solved: AwareDatetime | None = None
    whose: Whose = "unknown"
    severity: str = ""
    reference: str = ""

    def __post_init__(self) -> None:
        # What the archive stores of them: the same entry again is then known to be the same.
        for name in ("what", "severity", "reference"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def check(self, now: datetime) -> None:
        """ValueError for an entry that cannot be true; only maintenance is announced before it happens."""
        if len(self.what.strip()) < 3 or max(map(len, (self.what, self.severity, self.reference))) > 500:
            raise ValueError(f'what is "{self.what[:60]}"; expected 3 to 500 characters, in severity and reference at most 500')
        for name, at in (("opened", self.opened), ("answered", self.answered), ("solved", self.solved)):
            if at is not None and (at < self.opened or (at > now and self.kind != "maintenance")):
                raise ValueError(f"{name} is {at.isoformat()}; expected a time between opened ({self.opened.isoformat()}) and now")


@dataclass(frozen=True)
class LogEntryView(LogEntry):
    """An entry as archived. `revision` counts its states from 1: a correction is a further one, by `recorded_by`. `noted_at`: since when its states
    cover this window, None of one that was not read from an archive."""

    entry_id: str = field(kw_only=True)
    revision: int = field(kw_only=True)
    recorded_at: datetime = field(kw_only=True)
    recorded_by: str = field(kw_only=True)
    noted_at: datetime | None = field(default=None, kw_only=True)
