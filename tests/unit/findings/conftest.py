"""The fixtures of drift: what findings are made of."""

from __future__ import annotations

from tests.unit.analysis.drift.conftest import key, limits, noisy, outcomes, rules, sample

__all__ = ["key", "limits", "noisy", "outcomes", "rules", "sample"]
