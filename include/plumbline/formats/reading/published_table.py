"""Tables that a publisher lists its runs in, one run a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Literal

from plumbline.formats.registry import Format, Formats
from plumbline.metrics.rows import MetricRow, Reason, Scalar


@dataclass(frozen=True)
class PublishedRun:
    """A row as a run, by the fields of `PublishedResult`. `line` counts from 1 with the header, as editors do. `facts`: of its environment.
    `invalid`: why its number does not count; none of a valid run."""

    line: int
    publisher: str
    campaign_id: str
    published_on: date
    kind: Literal["training", "inference"]
    workload: str
    provider: str
    instance_type: str
    system: str
    repeat: int
    spec: Mapping[str, Scalar]
    facts: Mapping[str, Scalar]
    metrics: tuple[MetricRow, ...]
    url: str
    original: Mapping[str, str]
    invalid: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class RejectedRow:
    """A row that did not become a run. `line`: as of `PublishedRun`."""

    line: int
    reason: str


class PublishedTable(Format):
    """A CSV file of a publisher. Its name is the protocol of its runs. `published`: date of each round that is known here."""

    published: ClassVar[Mapping[str, date]]

    @abstractmethod
    def runs(self, lines: Iterable[str], published: Mapping[str, date]) -> Iterator[PublishedRun | RejectedRow]:
        """Each row in its order. `published` dates the rounds that may occur. ValueError if it is no such file; a single bad row never is an error."""


PUBLISHED_TABLES: Formats[PublishedTable] = Formats(PublishedTable)
