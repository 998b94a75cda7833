"""The document of a hardware probe."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from plumbline.metrics.rows import CatalogueRows, Part
from plumbline.results import bounded_json
from plumbline.results.document import Environment

PROBE_LIMIT_S = 120.0
"""Seconds of a probe's measurements at most: two minutes of one GPU."""


class InvalidProbe(ValueError):
    """A probe's document is invalid; the message names the field."""


class ProbeDocument(Part):
    """`metrics` are rows of the phase `environment`; `left_out`: why each skipped probe gave none; `seconds`: how long the probe took.
    `foreign_cpu`: share of the cores that others used meanwhile, where cores were measured."""

    schema_version: Literal["probe-1"] = "probe-1"
    harness_version: str
    taken_at: datetime
    seconds: float = Field(ge=0)
    environment: Environment
    metrics: CatalogueRows
    foreign_cpu: float | None = None
    left_out: dict[str, str] = Field(default_factory=dict)

    @property
    def figures(self) -> Mapping[str, float]:
        """Metric → value, without absent ones."""
        return {row.metric: row.value for row in self.metrics if row.value is not None}

    @classmethod
    def read(cls, text: bytes, where: str) -> ProbeDocument:
        """The document in a JSON text; InvalidProbe, naming `where` it was read, if it is invalid."""
        try:
            return bounded_json.parse_model(cls, text, where)
        except bounded_json.InvalidResult as error:
            raise InvalidProbe(f"{error}; expected what `python -m plumbline.harness probe --out` writes") from error
