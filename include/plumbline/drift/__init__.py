"""Pure functions that say what drifted and why: comparison, environment diff, attribution, findings.

    comparison = compare(baseline_samples, candidate_sample, rules=…, limits=…)
    findings = findings_of(comparison)

Data in, data out: the archive hands over samples, and stores what comes back.
"""

from plumbline.drift.compare import Comparison, MetricComparison, compare
from plumbline.drift.environment import Change, diff
from plumbline.drift.finding import Finding, Member
from plumbline.drift.findings import findings_of
from plumbline.drift.sample import CampaignSample, Observation, TrialOutcome

__all__ = [
    "CampaignSample",
    "Change",
    "Comparison",
    "Finding",
    "Member",
    "MetricComparison",
    "Observation",
    "TrialOutcome",
    "compare",
    "diff",
    "findings_of",
]
