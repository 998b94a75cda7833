"""Which attempts were launches of the provider's, and how many of them gave what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.declarations.confidence import Share, needed_to_prove, wilson
from plumbline.scorecards.inputs import TrialNumbers
from plumbline.scorecards.pooling import at_most

NOT_STARTED = frozenset({"insufficient_capacity", "launch_timeout", "unreachable", "wrong_hardware"})
"""Failure classes in which the provider did not deliver what was asked before the harness could start."""
OURS = frozenset({"bad_declaration", "image_error", "quota_exceeded"})
"""Failure classes that are no launch of the provider's: what was asked for was wrong, or more than was agreed."""


@dataclass(frozen=True)
class LaunchSuccess:
    """Attempts whose harness started over attempts that were launched, against what the contract promises.

    `verdict`: met (the interval lies at or above the promise), missed (wholly below it, and so
    few successes would be chance less than one time in forty), unproven (too few launches to tell), or
    none_declared. `launches_needed`: flawless launches after which the promise would be proven.
    """

    share: Share
    promised: float | None
    verdict: str
    launches_needed: int | None


def launched(trials: Sequence[TrialNumbers]) -> tuple[TrialNumbers, ...]:
    """Attempts that were launches of the provider's. Missing trials were not seen to launch or to fail; what failed by our fault is none."""
    return tuple(t for t in trials if t.status != "missing" and t.failure_class not in OURS)


def launch_success(trials: Sequence[TrialNumbers], promised: float | None) -> LaunchSuccess:
    """Launch success over all attempts that were launches of the provider's."""
    tried = launched(trials)
    share = wilson(sum(t.failure_class not in NOT_STARTED for t in tried), len(tried))
    if promised is None:
        return LaunchSuccess(share, None, "none_declared", None)
    needed = needed_to_prove(promised) if 0 < promised < 1 else None
    if share.low is None or share.high is None:
        verdict = "unproven"
    elif share.high < promised and at_most(share.successes, share.n, promised) < 0.025:
        # Wilson alone would call one failure among eleven a miss of 99 %, which happens to a provider that keeps its word one time in ten.
        verdict = "missed"
    else:
        verdict = "met" if share.low >= promised else "unproven"
    return LaunchSuccess(share, promised, verdict, needed)
