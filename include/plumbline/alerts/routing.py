"""Who is told of a finding: the first declared rule that fits it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plumbline.declarations import Alerts, QuietHours
from plumbline.drift import Finding
from plumbline.drift.sample import Series


@dataclass(frozen=True)
class Target:
    """`channels` by id, `owner` to mention (a person's or a group's id), `quiet_hours` of the rule; `rule` in words for the log."""

    channels: tuple[str, ...]
    owner: str | None = None
    quiet_hours: QuietHours | None = None
    rule: str = "no rule"

    def waits(self, finding: Finding, now: datetime) -> bool:
        """Whether the finding is nothing that people are told of at this hour."""
        return finding.severity != "page" and self.quiet_hours is not None and self.quiet_hours.quiet(now)


def target_of(finding: Finding, alerts: Alerts, channel: str) -> Target:
    """Where the finding goes; `channel` is the connection's own, for rules that name none and for findings that no rule fits."""
    names = {Series.parse(key).workload for key in finding.series if key} | ({finding.workload} if finding.workload else set())
    workloads = tuple(sorted(names))
    for i, route in enumerate(alerts.routes):
        if route.when is None or route.when.holds(finding.provider, workloads, finding.kind, finding.severity):
            return Target(route.channels or (channel,), route.owner, route.quiet_hours, f"routes[{i}]")
    return Target((channel,))
