"""Hardware that a probe without a workload found slower, several times in a row."""

from __future__ import annotations

from plumbline.findings.types.base import register
from plumbline.findings.types.performance import Performance


@register
class Probe(Performance):
    id = "probe"
    subject = "probe"
    usual = False
    history = "probes"
