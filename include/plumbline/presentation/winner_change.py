"""Why a first choice changed, as the steps from the lead before to the lead now: for charts and the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.analysis.decisions.winner_change import Cause, WinnerChange
from plumbline.metrics.formatting import format_name

_CAUSES: tuple[tuple[Cause, str], ...] = (
    ("price", "price"),
    ("speed", ""),
    ("cost", ""),
    ("weights", "weights and gates"),
    ("noise", "noise"),
)
"""Cause and its step; empty: one step for each metric."""


@dataclass(frozen=True)
class Step:
    """`points`: the lead, or a part of its move from `base`, in logarithms of the score. `cause`: None of a lead."""

    name: str
    base: float
    points: float
    cause: Cause | None

    @property
    def text(self) -> str:
        """About percent."""
        return f"{100 * self.points:+.1f}".replace("-", "−")


def change_title(change: WinnerChange) -> str:
    return f"Why {change.new} is first instead of {change.old}"


def change_steps(change: WinnerChange) -> tuple[Step, ...]:
    """The lead before, the parts, the lead now; empty where the lead is not known."""
    if change.before is None or change.after is None:
        return ()
    steps = [Step(f"{change.new}, before", 0.0, change.before, None)]
    level, several = change.before, len({p.workload for p in change.parts}) > 1
    for cause, title in _CAUSES:
        rows: dict[str, float] = {}
        for part in (p for p in change.parts if p.cause == cause):
            name = title or format_name(part.metric) + (f", {part.workload}" if several else "")
            rows[name] = rows.get(name, 0.0) + part.points
        for name, points in rows.items():
            steps.append(Step(name, level, points, cause))
            level += points
    return (*steps, Step(f"{change.new}, now", 0.0, change.after, None))
