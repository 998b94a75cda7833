"""Promises of a contract against measurements: kept, broken, or not shown. One rule for launches, lead times and speeds.

The rule. Every promise is about a share of tries: so many launches start, so many of them in time, and half of the repeats reach a speed (its
median does). A verdict needs both Wilson's 95 % interval of the measured share wholly on one side of the promised one, and the exact binomial
test at 2.5 % on that side. Wilson alone would call one failure among eleven a breach of 99 %, which happens to a provider that keeps its word
one time in ten. What neither shows is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import common_scale, format_limit
from plumbline.metrics.proportions import CONFIDENCE, Proportion, binomial_at_most, wilson_interval

PromiseVerdict = Literal["kept", "broken", "not_shown", "not_promised"]
_LEVEL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class PromisedShare:
    """The share of tries that held a promise. `promised`: None without a promise. `unproven`: further tries that failed for a
    cause that is not proven to be the provider's, no part of `share`: kept only if they all were the provider's and it still held. `needed`: tries in all that would show the promise kept if no further one fails; None unless it is not shown,
    or where no number can (100 %)."""

    share: Proportion
    promised: float | None
    verdict: PromiseVerdict
    needed: int | None
    unproven: int = 0

    @property
    def failures(self) -> int:
        return self.share.n - self.share.successes

    @property
    def judgement(self) -> Judgement:
        seen = f"{self.share.successes} of {self.share.n} held" if self.share.n else "nothing was tried"
        if self.promised is None or self.verdict == "not_promised":
            return not_shown(seen, "nothing is promised", "a promise in `sla` of the provider")
        seen += f", promised {format_limit(self.promised)}"
        if self.unproven:
            seen += f"; {self.unproven} more failed for an unproven cause"
        if self.verdict == "not_shown":
            enough = "no number of tries shows it kept" if self.needed is None else f"{self.needed} in all, if no further one fails"
            return not_shown(seen, "too few to tell", enough)
        return met(seen) if self.verdict == "kept" else broken(seen)


@judges("promised share")
def judge_share(share: Proportion, promised: float | None, unproven: int = 0) -> PromisedShare:
    """Judge a measured share. `unproven`: see PromisedShare."""
    if promised is None:
        return PromisedShare(share, None, "not_promised", None, unproven)
    failures = share.n - share.successes
    if share.high is not None and share.high < promised and binomial_at_most(share.successes, share.n, promised) <= _LEVEL:
        return PromisedShare(share, promised, "broken", None, unproven)
    # Unknown is unknown: what failed for an unproven cause may be the provider's, and must not hide in what is kept.
    if _shows_kept(share.n + unproven, failures + unproven, promised):
        return PromisedShare(share, promised, "kept", None, unproven)
    return PromisedShare(share, promised, "not_shown", tries_to_keep(promised, failures + unproven), unproven)


def _shows_kept(n: int, failures: int, promised: float) -> bool:
    low = wilson_interval(n - failures, n).low
    return low is not None and low >= promised and binomial_at_most(failures, n, 1 - promised) <= _LEVEL


def tries_to_keep(promised: float, failures: int = 0) -> int | None:
    """The smallest number of tries, `failures` of them failed, that shows the promised share kept: 381 flawless ones for 99 %, 563 with one failure.

    None for a promise of 100 %, which tries can break only. Of a flawless record it is ⌈p z² / (1 - p)⌉ from p = 92 % on, Wilson's bound; below
    that the exact test, pⁿ ≤ 2.5 %, asks for more.
    """
    if promised >= 1:
        return None
    most = failures + 1
    while not _shows_kept(most, failures, promised):
        most *= 2
    least = failures
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _shows_kept(middle, failures, promised) else (middle, most)
    return most


_INTERVALS = (10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400)
"""Seconds between checks that people declare."""


def interval_for(checks: int, within: timedelta) -> str:
    """The longest usual interval that makes so many checks in a time, such as `every 5.00 min`; in plain seconds where even the shortest does not."""
    longest = within.total_seconds() / checks
    every = max((each for each in _INTERVALS if each <= longest), default=longest)
    return f"every {common_scale('s', [every]).text(every)}"
