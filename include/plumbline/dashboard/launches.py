"""How launches of a provider ended, campaign by campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from plumbline.archive.trends import LaunchCounts
from plumbline.declarations.confidence import Share, wilson
from plumbline.reports.figures import percent, scale, words
from plumbline.scorecards.launches import NOT_STARTED, OURS


@dataclass(frozen=True)
class LaunchLine:
    """One campaign in words; `refused`: what kept launches from starting, with how often."""

    campaign_id: str
    day: str
    launches: str
    ratio: str
    interval: str
    refused: str
    lead_time: str


def launched(counts: LaunchCounts) -> Share:
    """Launches that succeeded, of those that were the provider's to start: what failed by our own fault is none of them."""
    tried = sum(n for cause, n in counts.ended.items() if cause not in OURS)
    return wilson(tried - sum(n for cause, n in counts.ended.items() if cause in NOT_STARTED), tried)


def launch_lines(counts: Sequence[LaunchCounts]) -> tuple[LaunchLine, ...]:
    """Newest first."""
    unit = scale("s", [t for c in counts for t in c.lead_times], "provisioning_lead_time")
    lines = []
    for c in reversed(counts):
        share = launched(c)
        refused = sorted((n, cause) for cause, n in c.ended.items() if cause in NOT_STARTED)
        lines.append(
            LaunchLine(
                campaign_id=c.campaign_id,
                day=c.planned_at.strftime("%Y-%m-%d"),
                launches=f"{share.successes} of {share.n}",
                ratio=percent(share.ratio, 1),
                interval=f"{percent(share.low)} … {percent(share.high)}" if share.low is not None else "–",
                refused=", ".join(f"{n} × {words(str(cause))}" for n, cause in reversed(refused)) or "–",
                lead_time=unit.text(median(c.lead_times)) if c.lead_times else "–",
            )
        )
    return tuple(lines)
