"""How reliably a campaign ran, beside its baseline: attempts, failures by class, trials that left no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from plumbline.results.sample import CampaignSample, TrialOutcome

_LARGER = 0.05
GPU_ERRORS_SUBJECT = "gpu_errors"
"""Subject of a finding about them."""
_GPU_ERRORS = "gpu_"
"""How the codes of the reasons begin that name new errors of a GPU: see `harness.gpu_errors`."""


@dataclass(frozen=True)
class Reliability:
    """Counts over attempts. `failed` is (failure class, attempts), most frequent first; `missing` are planned trials without any record.

    `gpu_errors` is (reason code, attempts) of the attempts in which GPUs made new errors, `gpu_error_trials` their trials.
    """

    attempts: int
    failed: tuple[tuple[str, int], ...]
    failed_trials: tuple[str, ...]
    invalid: int
    planned: int | None
    missing: int
    baseline_attempts: int
    baseline_failed: int
    gpu_errors: tuple[tuple[str, int], ...] = ()
    gpu_error_trials: tuple[str, ...] = ()
    baseline_gpu_errors: int = 0

    @property
    def failures(self) -> int:
        return sum(n for _, n in self.failed)

    @property
    def as_usual(self) -> bool:
        """Whether the baseline explains the failures: Fisher's exact test sees no larger share than there. False without a baseline."""
        return self._usual(self.failures, self.baseline_failed)

    @property
    def gpu_errors_as_usual(self) -> bool:
        """The same of the attempts with new errors of a GPU."""
        return self._usual(len(self.gpu_error_trials), self.baseline_gpu_errors)

    def _usual(self, now: int, before: int) -> bool:
        if not self.baseline_attempts:
            return False
        table = np.array([[now, self.attempts - now], [before, self.baseline_attempts - before]])
        return float(stats.fisher_exact(table, alternative="greater").pvalue) > _LARGER


def reliability_of(baseline: Sequence[CampaignSample], candidate: CampaignSample) -> Reliability:
    """Reliability of the candidate's attempts, and the baseline's counts to compare them with."""
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
        gpu_errors=tuple(Counter(code for o in ran for code in _gpu_errors(o)).most_common()),
        gpu_error_trials=tuple(o.trial_id for o in ran if _gpu_errors(o)),
        baseline_gpu_errors=sum(bool(_gpu_errors(o)) for o in before),
    )


def _gpu_errors(outcome: TrialOutcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for code in outcome.reasons if code.startswith(_GPU_ERRORS)))
