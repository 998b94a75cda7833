"""One change that several series share, such as a driver or what a cloud changed, and that moved them: its pooled verdict."""

from __future__ import annotations

from plumbline.findings.phrases import format_begin
from plumbline.findings.types.base import Step, register
from plumbline.findings.types.performance import Performance
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding


@register
class Cause(Performance):
    id = "cause"
    subject = "cause/"
    usual = False

    def cause(self, finding: Finding) -> str:
        return cause_name(finding)

    def about(self, finding: Finding) -> list[Step]:
        return about_providers(finding, super().about(finding))

    def consequence(self, finding: Finding, caused: bool) -> str:
        return pooled_verdict(finding)


def cause_name(finding: Finding) -> str:
    """Of a pooled verdict, what came, such as `driver 570.86.15`."""
    return finding.cause.names[0] if finding.cause is not None else ""


def about_providers(finding: Finding, usual: list[Step]) -> list[Step]:
    """The providers that have it by their names, in place of the fleet's, and the kind of what it moved."""
    if finding.cause is None:
        return usual
    return [("Providers", shorten(finding.cause.providers)), ("Workloads", f"{finding.cause.series} series, {finding.workload_kind}")]


def pooled_verdict(finding: Finding) -> str:
    """Of a pooled verdict, what it says of the series, and since when."""
    what, *left = finding.title.removeprefix(f"{cause_name(finding)}: ").split("; ")
    return "; ".join((f"{what} since {format_begin(finding)}", *left))
