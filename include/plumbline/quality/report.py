"""Verdicts of a quality check: one for each attempt, problems of the whole table, and the path of the Data Docs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plumbline.results import Reason

Action = Literal["accept", "annotate", "reject"]
Severity = Literal["critical", "warning"]
_WORSE: tuple[Action, ...] = ("accept", "annotate", "reject")


@dataclass(frozen=True)
class Verdict:
    """The verdict on one attempt: `accept` it, `annotate` it with reasons, or `reject` it (kept, never compared)."""

    action: Action = "accept"
    reasons: tuple[Reason, ...] = ()

    def with_reason(self, severity: Severity, reason: Reason) -> Verdict:
        """The verdict after one more failed expectation: critical rejects, a warning annotates."""
        action: Action = "reject" if severity == "critical" else "annotate"
        return Verdict(max(self.action, action, key=_WORSE.index), (*self.reasons, reason))


@dataclass(frozen=True)
class QualityReport:
    """The outcome of one check. `success`: nothing was rejected, nothing planned is missing, and every expectation could be evaluated."""

    success: bool
    verdicts: dict[str, Verdict]
    problems: tuple[Reason, ...]
    data_docs: Path
