"""Findings of the archive as values."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from plumbline.results.finding import UNREADABLE_ERRORS, Finding
from plumbline.results.stored import FindingView

_log = logging.getLogger(__name__)


def readable_findings(views: Iterable[FindingView]) -> list[Finding]:
    """The findings in their present state. One of another shape, such as a newer version's, is logged and omitted: `alert` opens a finding about
    the installation for it."""
    findings = []
    for view in views:
        try:
            findings.append(Finding.of(view.detail).with_state(view.state))
        except UNREADABLE_ERRORS as error:
            _log.error("finding %s of %s cannot be read: %s: %s", view.finding_id, view.provider, type(error).__name__, error)
    return findings
