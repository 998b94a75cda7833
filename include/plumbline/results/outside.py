"""A result that somebody else measured and published: what is kept of it, and how it is told apart from our own for ever.

It has no result document, because none of our harnesses ran: no trial specification of ours, no timeline, no evidence. It keeps the
row that it was made from, word for word. Its series key names another protocol than the harness's, so that it can join no measured
series and be compared with none.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from plumbline.declarations import digest
from plumbline.declarations.base import Name
from plumbline.results.document import Environment, Many, MetricRow, Part, Scalar, Validity

OUTSIDE_SCHEMA_VERSION = 1
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


class OutsideResult(Part):
    """One run of an outside benchmark. `spec` is what was asked of the system, as far as the publisher says; `original` its row."""

    schema_version: Literal[1] = 1
    publisher: str = Field(min_length=1, examples=["MLPerf Training v5.0"], description="who measured by which rules")
    protocol: Name = Field(description="those rules, as the series key names them")
    campaign_id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    reason: str = Field(min_length=1)
    published_at: AwareDatetime
    kind: Literal["training", "inference"]
    workload: Name
    version: int = Field(1, ge=1)
    provider: Name
    region: Name
    instance_type: Name
    system: Name = Field(
        description="the machine or cluster; stands where a trial of ours has its slot, so that repeats of one are together"
    )
    repeat: int = Field(ge=0, description="the publisher's own number of the run")
    spec: dict[str, Scalar]
    environment: Environment
    validity: Validity
    metrics: Many[MetricRow]
    url: str = Field(pattern=r"^https://[^\s]+$", description="where the publisher keeps the results")
    original: Annotated[dict[str, str], Field(min_length=1)]

    @model_validator(mode="after")
    def _judged(self) -> OutsideResult:
        if self.validity.status == "valid" and not any(m.value is not None for m in self.metrics):
            raise ValueError("a valid result without a number; expected at least one metric with a value")
        return self

    @property
    def series_key(self) -> str:
        """Shaped like a measured series' key. Nobody outside says which engine family it was: the stack stands in the environment."""
        workload = f"{self.workload}@{self.version}"
        return "/".join((self.kind, workload, self.protocol, "as-submitted", self.provider, self.region, self.instance_type))

    @property
    def trial_id(self) -> str:
        """Unique over all series: campaign, provider, workload, instance, system, repeat."""
        return ".".join((self.campaign_id, self.provider, self.workload, self.instance_type, self.system, f"r{self.repeat}"))

    @property
    def spec_hash(self) -> str:
        """SHA-256 of what was asked of the system."""
        return digest(self.spec)

    @property
    def criteria_hash(self) -> str:
        """SHA-256 of whose rules judged it."""
        return digest({"protocol": self.protocol, "publisher": self.publisher})

    @property
    def checksum(self) -> str:
        """SHA-256 of all of it."""
        return digest(self.model_dump(mode="json"))


def slug(text: str) -> str:
    """A name as declarations have them: `NVIDIA H200-SXM5-141GB` is `nvidia-h200-sxm5-141gb`. ValueError if nothing remains."""
    found = _NOT_IN_A_NAME.sub("-", text.lower()).strip("-")
    if not found:
        raise ValueError(f'"{text}" holds no letter or digit; expected a name')
    return found
