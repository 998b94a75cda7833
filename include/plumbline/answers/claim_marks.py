"""What became of claims, as people marked them: the last mark on a finding in the audit log counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

from plumbline.archive import Archive

if TYPE_CHECKING:
    from plumbline.declarations.promises import JudgedPromise

ClaimState = Literal["claimed", "credited", "refused"]
"""A claim that was sent, one whose credit came, and one that the provider refused."""
ClaimStanding = Literal["", "to_claim", "claimed", "too_late"]
"""Where a credit stands: empty where none is granted."""
MARKS: dict[str, ClaimState] = {"claim_sent": "claimed", "claim_credited": "credited", "claim_refused": "refused"}
"""By the audit log's name."""
WORDS: dict[ClaimState, str] = {"claimed": "claim sent", "credited": "credit received", "refused": "claim refused"}


@dataclass(frozen=True)
class ClaimMark:
    """`promises`: what the claim is for, as `claim_key` names each."""

    state: ClaimState
    on: date
    by: str
    why: str
    promises: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{WORDS[self.state]} on {self.on} ({self.by}: {self.why})"


def claim_key(judged: JudgedPromise) -> str:
    """Promise and period, such as `availability in 2026-09` and `time to recover in 2026-09`; without a period for a breach without a date."""
    begin = judged.month or judged.row.last
    return judged.row.name if judged.month is not None or begin is None else f"{judged.row.name} in {begin:%Y-%m}"


def claim_marks(archive: Archive, findings: Collection[str]) -> dict[str, ClaimMark]:
    """Finding's id → the last mark on its claim, of these findings."""
    entries = archive.audit(tuple(sorted(findings))) if findings else ()
    return {
        e.subject: ClaimMark(MARKS[e.what], e.at.date(), e.who, e.why, tuple(e.detail.get("promises", ())))
        for e in entries
        if e.what in MARKS
    }
