"""A number that a container workload declares."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.metrics import Direction, Unit


class ContainerMetric(Declared):
    """A number of the results. `field`: the path of keys in a line of JSON, such as summary.latency, or the group of the pattern; the metric's
    own name if omitted. Of several values the last one counts."""

    unit: Unit
    better: Literal["higher", "lower", "none"]
    field: str | None = Field(None, min_length=1, max_length=500)
    scale: float = Field(1.0, gt=0, description="what the output's own unit is in `unit`: 0.001 of milliseconds, 1e9 of GB/s")

    @property
    def direction(self) -> Direction:
        return "informative" if self.better == "none" else "higher_is_better" if self.better == "higher" else "lower_is_better"
