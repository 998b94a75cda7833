"""An environment check between campaigns that fails day after day."""

from __future__ import annotations

from datetime import date

from plumbline.findings import provider_finding
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.results.finding import Finding


@register
class FailingCheck(MissingTrials):
    id = "failing_check"
    subject = "watch"
    usual = False

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline watch {finding.provider} --facts", "the check now, with its error")]


def check_failing_finding(provider: str, last: date, why: str, simulated: bool = False) -> Finding:
    """`last`: the day of the last check that succeeded; `why` the newest one failed."""
    return provider_finding(
        provider,
        "missing_data",
        FailingCheck.subject,
        began=last.isoformat(),
        since=last.isoformat(),
        severity="warn",
        title=f"environment check failing since {last.isoformat()}",
        explanation=f"{why}; changes of driver or hardware go unnoticed until a trial runs",
        simulated=simulated,
    )
