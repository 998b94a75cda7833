"""Hardware that a probe without a workload found slower, several times in a row."""

from __future__ import annotations

from plumbline.findings.types.base import Step, register
from plumbline.findings.types.performance import Performance
from plumbline.results.finding import Finding


@register
class Probe(Performance):
    id = "probe"
    subject = "probe"
    usual = False
    history = "probes"

    def looks(self, finding: Finding) -> list[Step]:
        return [(f"plumbline watch {finding.provider} --probe", "the probe once more, now")]
