"""One change that several series share, and that moved nothing or cannot be judged yet."""

from __future__ import annotations

from plumbline.findings.types.base import Step, register
from plumbline.findings.types.cause import about_providers, cause_name, pooled_verdict
from plumbline.findings.types.environment import EnvironmentFinding
from plumbline.results.finding import Finding


@register
class SharedChange(EnvironmentFinding):
    id = "shared_change"
    subject = "cause/"
    order = 50
    usual = False
    explains = False

    def cause(self, finding: Finding) -> str:
        return cause_name(finding)

    def about(self, finding: Finding) -> list[Step]:
        return about_providers(finding, super().about(finding))

    def consequence(self, finding: Finding, caused: bool) -> str:
        return pooled_verdict(finding)
