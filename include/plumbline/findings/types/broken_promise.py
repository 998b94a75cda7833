"""A promise that the operations log, or checks between campaigns, show broken."""

from __future__ import annotations

from plumbline.findings.types.base import register
from plumbline.findings.types.failed_launches import FailedLaunches


@register
class BrokenPromise(FailedLaunches):
    id = "broken_promise"
    subject = "promise/"
    order = 29
    usual = False
    noun = "broken promise"
    advice = "Claim from"
