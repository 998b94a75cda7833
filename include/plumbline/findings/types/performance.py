"""A workload that became slower or faster in a campaign, compared with its baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from plumbline.findings.phrases import format_begin, titled
from plumbline.findings.types.base import FindingType, History, Step, register
from plumbline.kinds import kind_of_series
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_change, format_name
from plumbline.results.finding import Finding

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison

_SPEED = ("latency", "throughput")


@register
class Performance(FindingType):
    id = "performance"
    kinds = ("performance",)
    subject = "performance"
    order = 10
    usual = True
    noun = "regression"
    accepting = "baseline"
    accept_label = "Accept as new baseline"
    reject_label = "Reject: the baseline stays"
    accepted_as = "NEW BASELINE"
    reruns = True
    claimable = True
    moves_choices = True
    costs = "pace"
    history: ClassVar[History | None] = "series"
    advice = "Claim from, or rerun on,"
    recovered = "is back within the thresholds of its baseline"

    def word(self, direction: str, effect: float | None) -> str:
        return "improvement" if direction == "improved" else self.noun

    def is_good_news(self, direction: str, effect: float | None) -> bool:
        return direction == "improved"

    def consequence(self, finding: Finding, caused: bool) -> str:
        metric = finding.metric
        kind = kind_of_series(finding.workload_kind, finding.series_key)
        if finding.effect is None or not metric or kind is None:
            return titled(finding, caused)
        share = format_change(finding.effect)[1:]
        # A workload's own metric is a latency or a throughput, whose side the finding knows.
        known, direction = METRICS.get(metric), finding.direction_of(finding.series_key)
        if known is None and direction is None:
            return titled(finding, caused)
        if known is not None and (known.group not in _SPEED or known.direction == "informative"):
            what = f"{format_name(metric)} of {finding.workload} {share} {'higher' if finding.effect > 0 else 'lower'}"
            what = what if caused else f"{finding.provider}: {what}"
        else:
            better = direction == "improved" if known is None else (finding.effect > 0) == (known.direction == "higher_is_better")
            change = f"{share} {'faster' if better else 'slower'}"
            what = (
                f"{finding.workload} {kind.verb} {change}"
                if caused and kind.workload_acts
                else f"{finding.provider} {kind.verb} {finding.workload} {change}"
            )
        others = len(finding.series) - 1
        also = f", {others} more series moved too" if others > 0 else ""
        return f"{what} since {format_begin(finding)}{also}{'' if finding.attributed_to else ', cause unknown'}"

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        if now.problems:
            return False
        judged = [row.verdict for row in now.rows if row.family == "lead" and row.effect is not None and row.verdict is not None]
        return bool(judged) and known.direction_of(now.series_key) not in {row.verdict for row in now.rows} and "suspected" not in judged

    def looks(self, finding: Finding) -> list[Step]:
        return compared_with_baseline(finding)

    def accept_purpose(self, finding: Finding) -> str:
        return baseline_purpose(finding)


def compared_with_baseline(finding: Finding) -> list[Step]:
    """The command that compares its campaign with the baseline; none of what no campaign measured."""
    measured = finding.baseline_campaigns and finding.campaigns
    return [(f"plumbline compare --finding {finding.finding_id}", "every metric against the baseline")] if measured else []


def baseline_purpose(finding: Finding) -> str:
    return "accept as new baseline" if finding.campaigns else "accept as the reference of later environment checks"
