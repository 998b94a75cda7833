"""How reliably a campaign ran, beside its baseline: attempts, failures by class, trials that left no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from plumbline.drift.sample import CampaignSample

_LARGER = 0.05


@dataclass(frozen=True)
class Reliability:
    """Counts over attempts. `failed` is (failure class, attempts), most frequent first; `missing` are planned trials without any record."""

    attempts: int
    failed: tuple[tuple[str, int], ...]
    failed_trials: tuple[str, ...]
    invalid: int
    planned: int | None
    missing: int
    baseline_attempts: int
    baseline_failed: int

    @property
    def failures(self) -> int:
        return sum(n for _, n in self.failed)

    @property
    def as_usual(self) -> bool:
        """Whether the baseline explains the failures: Fisher's exact test sees no larger share than there. False without a baseline."""
        if not self.baseline_attempts:
            return False
        table = np.array(
            [[self.failures, self.attempts - self.failures], [self.baseline_failed, self.baseline_attempts - self.baseline_failed]]
        )
        return float(stats.fisher_exact(table, alternative="greater").pvalue) > _LARGER


def reliability_of(baseline: Sequence[CampaignSample], candidate: CampaignSample) -> Reliability:
    """Reliability of the candidate's attempts, and the baseline's counts to hold them against."""
    ran = [o for o in candidate.outcomes if o.status != "missing"]
    failed = [o for o in ran if o.status == "failed"]
    before = [o for sample in baseline for o in sample.outcomes if o.status != "missing"]
    recorded = {(o.slot, o.repeat) for o in ran}
    gone = {(o.slot, o.repeat) for o in candidate.outcomes if o.status == "missing"} - recorded
    missing = max(len(gone), candidate.planned - len(recorded)) if candidate.planned is not None else len(gone)
    return Reliability(
        attempts=len(ran),
        failed=tuple(Counter(o.failure_class or "unknown" for o in failed).most_common()),
        failed_trials=tuple(dict.fromkeys(o.trial_id for o in failed)),
        invalid=sum(o.status == "invalid" for o in ran),
        planned=candidate.planned,
        missing=max(0, missing),
        baseline_attempts=len(before),
        baseline_failed=sum(o.status == "failed" for o in before),
    )
