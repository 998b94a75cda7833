"""Results published by others: one run as a `PublishedResult`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from plumbline.declarations import digest
from plumbline.declarations.base import Name
from plumbline.formats.reading.run import Gap
from plumbline.metrics.rows import CatalogueRows, Part, Scalar
from plumbline.results.document import Environment, Validity


class SourceFile(Part):
    """The file that a result was read from. `tool_version`: None where the file does not name it."""

    name: str = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tool: str = Field(min_length=1, examples=["aiperf"])
    tool_version: str | None = None


class PublishedResult(Part):
    """One run of an outside benchmark. `spec` is what was asked of the system, as far as the publisher says; `original` its row.

    It lies at `url`, or was read from the file `source`."""

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
    instance_type: str = Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    system: Name = Field(description="the machine or cluster; takes the place of a trial's slot, so that its repeats are grouped")
    repeat: int = Field(ge=0, description="the publisher's own number of the run")
    spec: dict[str, Scalar]
    environment: Environment
    validity: Validity
    metrics: CatalogueRows
    url: str | None = Field(None, pattern=r"^https://[^\s]+$", description="where the publisher keeps the results")
    original: Annotated[dict[str, str], Field(min_length=1)]
    source: SourceFile | None = None
    gaps: tuple[Gap, ...] = ()

    @model_validator(mode="after")
    def _check_content(self) -> PublishedResult:
        if self.validity.status == "valid" and not any(m.value is not None for m in self.metrics):
            raise ValueError("a valid result without a number; expected at least one metric with a value")
        if (self.url is None) == (self.source is None):
            raise ValueError("url and source are both given or both missing; expected one of them")
        return self

    @property
    def series_key(self) -> str:
        """Shaped like a measured series' key. The engine family is unknown; the software is part of the environment."""
        workload = f"{self.workload}@{self.version}"
        return "/".join((self.kind, workload, self.protocol, "as-submitted", self.provider, self.region, self.instance_type))

    @property
    def trial_id(self) -> str:
        """Unique over all series: campaign, provider, workload, instance, system, repeat."""
        return ".".join((self.campaign_id, self.provider, self.workload, self.instance_type, self.system, f"r{self.repeat}"))

    @property
    def spec_hash(self) -> str:
        return digest(self.spec)

    @property
    def criteria_hash(self) -> str:
        return digest({"protocol": self.protocol, "publisher": self.publisher})

    @property
    def address(self) -> str:
        """Where the result comes from: the publisher's page, or the file's SHA-256 as a URN."""
        return self.url or f"urn:sha256:{self.source.sha256 if self.source else ''}"

    @property
    def checksum(self) -> str:
        # A publisher's result has no source, and one of a file may have no gaps: what is not set is in no checksum.
        unset = {name for name in ("source", "gaps") if not getattr(self, name)}
        return digest(self.model_dump(mode="json", exclude=unset))
