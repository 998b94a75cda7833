"""One change that several series share, such as a driver or what a cloud changed, and that moved them: its pooled verdict."""

from __future__ import annotations

from plumbline.findings.phrases import format_begin
from plumbline.findings.types.base import register
from plumbline.findings.types.performance import Performance
from plumbline.results.finding import Finding


@register
class Cause(Performance):
    id = "cause"
    subject = "cause/"
    usual = False

    def cause(self, finding: Finding) -> str:
        return cause_name(finding)

    def consequence(self, finding: Finding, caused: bool) -> str:
        return pooled_verdict(finding)


def cause_name(finding: Finding) -> str:
    """Of a pooled verdict, what came, such as `driver 570.86.15`."""
    return finding.cause.names[0] if finding.cause is not None else ""


def pooled_verdict(finding: Finding) -> str:
    """Of a pooled verdict, what it says of the series, and since when."""
    what, *left = finding.title.removeprefix(f"{cause_name(finding)}: ").split("; ")
    return "; ".join((f"{what} since {format_begin(finding)}", *left))
