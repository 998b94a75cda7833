"""What a message says beside the finding itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Context:
    """`owner`: the Slack id of who is mentioned. `cost`: a sentence; `choice`: what changed of where teams run things, another. `links`:
    addresses with their words. `snoozed_until`: a time to come, or None. `came_back`: of one that was over before, since when, in words."""

    owner: str | None = None
    cost: str = ""
    choice: str = ""
    links: tuple[tuple[str, str], ...] = ()
    snoozed_until: datetime | None = None
    came_back: str = ""

    @property
    def mention(self) -> str:
        """The owner as Slack notifies of it; empty without one."""
        if self.owner is None:
            return ""
        return f"<!subteam^{self.owner}>" if self.owner.startswith("S") else f"<@{self.owner}>"
