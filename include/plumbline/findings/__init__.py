"""Findings: what observations mean for the open ones, and how each kind is worded."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.results.finding import Finding


@dataclass(frozen=True)
class Reconciliation:
    """What an observation means for findings.

    `opened`: new ones. `continued`: open ones as they are to be stored now. `unchanged`: open ones that were seen again. `resolved`: those that
    recovered, each with why.
    """

    opened: tuple[Finding, ...] = ()
    continued: tuple[Finding, ...] = ()
    resolved: tuple[tuple[Finding, str], ...] = ()
    unchanged: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the new ones first."""
        return (*self.opened, *self.continued, *self.unchanged, *(finding for finding, _ in self.resolved))
