"""The state of a series in words: steady, suspected, cannot tell, drifted, stale, never measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from plumbline.analysis.drift.comparison import format_relative_change
from plumbline.metrics.formatting import format_name

StateName = Literal["steady", "suspected", "cannot_tell", "drifted", "stale", "never_measured"]
STALE_DAYS = 40
"""Campaigns are monthly: what is older than this missed one."""
ORDER: tuple[StateName, ...] = ("drifted", "suspected", "stale", "cannot_tell", "never_measured", "steady")
"""The gravest first."""
REVIEWED_STATES: tuple[StateName, ...] = ("drifted", "suspected", "cannot_tell", "steady")
"""Those that a series can have in a campaign."""


@dataclass(frozen=True)
class ShownState:
    """`name` as one of the words; `text`: the word with what could be seen, or what would settle a doubt."""

    name: StateName
    text: str


def shown_state(
    campaign_id: str | None, planned_at: datetime | None, now: datetime, drifted: bool, review: Mapping[str, Any] | None
) -> ShownState:
    """The state of a series whose newest campaign this is; None where it never ran.

    `drifted`: an open performance finding covers it. `review`: its newest, as `Archive.newest_reviews` gives it.
    """
    if campaign_id is None or planned_at is None:
        return ShownState("never_measured", "never measured")
    days = (now - planned_at).days
    if drifted:
        return ShownState("drifted", "drifted" + _change(review))
    if days > STALE_DAYS:
        return ShownState("stale", f"stale: measured {days} days ago")
    if review is None or review.get("campaign_id") != campaign_id:
        return ShownState("cannot_tell", "cannot tell: not compared yet")
    state, detectable, repeats = review.get("state"), review.get("detectable"), review.get("repeats")
    if state == "steady":
        return ShownState("steady", "steady" + (f" (±{100 * detectable:.1f} %)" if detectable is not None else ""))
    more = f" ({repeats} more repeat{'s' * (repeats > 1)})" if repeats else ""
    if state == "suspected":
        return ShownState("suspected", f"suspected{_change(review)}{more}")
    if state == "drifted":  # the finding was accepted or resolved since
        return ShownState("cannot_tell", "cannot tell: the next campaign compares with the accepted baseline")
    return ShownState("cannot_tell", f"cannot tell{more}" if more else "cannot tell: no baseline, or nothing comparable")


def state_in_campaign(campaign_id: str, planned_at: datetime, review: Mapping[str, Any] | None) -> ShownState:
    """The state of a series as the campaign's review said it. `review`: as `Archive.newest_reviews` gives the campaign's."""
    return shown_state(campaign_id, planned_at, planned_at, review is not None and review.get("state") == "drifted", review)


def _change(review: Mapping[str, Any] | None) -> str:
    if review is None or review.get("effect") is None or review.get("state") not in ("drifted", "suspected"):
        return ""
    return f": {format_name(str(review['metric']))} {format_relative_change(review['effect'])}"


def drifted_series(findings: Collection[Any]) -> set[str]:
    """The series that unsettled performance findings cover. `findings`: as archived."""
    return {key for f in findings if f.kind == "performance" for key in (f.detail.get("standing") or [f.series_key]) if key}
