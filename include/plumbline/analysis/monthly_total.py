"""What findings cost and save a month, apart: a gain elsewhere does not pay for a loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class MonthlyTotal:
    """USD a month. `lost`, `saved`: sums of what costs more and of what costs less, both at least 0. `known`, `unknown`: findings with and
    without an amount."""

    lost: float = 0.0
    saved: float = 0.0
    known: int = 0
    unknown: int = 0


def sum_monthly(amounts: Iterable[float | None]) -> MonthlyTotal:
    """The total of findings that can have a cost; None: its amount is not known."""
    every = tuple(amounts)
    known = [usd for usd in every if usd is not None]
    lost, saved = sum(usd for usd in known if usd > 0), -sum(usd for usd in known if usd < 0)
    return MonthlyTotal(lost, saved + 0.0, len(known), len(every) - len(known))
