"""A quantity over time, as a finding shows it: what was measured, what it is held against, and since when it differs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Point:
    """What one campaign measured (each repeat a value), or one day's price. `label`: as the axis names it; values in the history's unit."""

    label: str
    values: tuple[float, ...]
    baseline: bool = False

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class History:
    """A quantity over time, oldest first. `since`: the place of the first point that differs; `change`: by how much, in words.

    `level`: what it is held against; `band`: where the new level lies, lowest and highest, by the finding's interval (None: exact).
    `level_name`: what that is called. `steps`: the value holds until the next point, as prices do; `simulated`: no real machine was measured.
    """

    title: str
    unit: str
    points: tuple[Point, ...]
    since: int
    change: str
    level: float | None = None
    level_name: str = "baseline"
    band: tuple[float, float] | None = None
    steps: bool = False
    simulated: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.since < len(self.points):
            raise ValueError(f"since is {self.since} of {len(self.points)} points; expected one with a point before it")

    @property
    def begin(self) -> str:
        """Since when, as the axis says it."""
        return self.points[self.since].label
