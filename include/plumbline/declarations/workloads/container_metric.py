"""A number that a container workload declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.metrics import Direction, Metric, Unit, own_metric, with_own


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

    def known(self, name: str) -> Metric:
        """The metric of that name; ValueError if the catalogue has it with another unit or direction."""
        return own_metric(name, self.unit, self.direction)


def catalogue_with(declared: Mapping[str, ContainerMetric]) -> Mapping[str, Metric]:
    """The catalogue and the metrics that a workload declares, by name."""
    return with_own(each.known(name) for name, each in declared.items())


def metrics_in(data: Any) -> dict[str, Metric]:
    """The metrics that a workload's data declares, by name, whatever else is wrong in it."""
    for key in ("task", "metrics"):
        data = data.get(key) if isinstance(data, dict) else None
    found = {}
    for name, fields in data.items() if isinstance(data, dict) else ():
        try:
            found[name] = ContainerMetric.model_validate(fields).known(name)
        except ValueError:
            continue  # reported where the workload is read
    return found
