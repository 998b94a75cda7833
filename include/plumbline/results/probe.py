"""What a short look from inside hands back: the environment and a few hardware figures, without a trial."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from plumbline.results import reading
from plumbline.results.document import Environment, MetricRow, Part

LIMIT_S = 120.0
"""For how long is measured at most: two minutes of one GPU."""


class BadProbe(ValueError):
    """What should be a probe's document is none; the message names the field."""


class ProbeDocument(Part):
    """`metrics` are rows of the phase `environment`; `left_out` says of each probe that gave none why. `seconds`: how long it took.
    `foreign_cpu`: the share of the cores that others used meanwhile, where these are what was measured and it could be seen."""

    schema_version: Literal["probe-1"] = "probe-1"
    harness_version: str
    taken_at: datetime
    seconds: float = Field(ge=0)
    environment: Environment
    metrics: tuple[MetricRow, ...]
    foreign_cpu: float | None = None
    left_out: dict[str, str] = Field(default_factory=dict)

    @property
    def figures(self) -> Mapping[str, float]:
        """Metric → value, of those that could be measured."""
        return {row.metric: row.value for row in self.metrics if row.value is not None}

    @classmethod
    def read(cls, text: bytes, where: str) -> ProbeDocument:
        """The document in a JSON text; BadProbe, naming `where` it stood, if it is none."""
        try:
            return reading.model(cls, text, where)
        except reading.BadResult as error:
            raise BadProbe(f"{error}; expected what `python -m plumbline.harness probe --out` writes") from error
