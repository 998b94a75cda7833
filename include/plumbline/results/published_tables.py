"""The runs of a publisher's table as published results: a row becomes a result, or is rejected with its line and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone

from pydantic import ValidationError

from plumbline.formats.reading.published_table import PublishedRun, PublishedTable, RejectedRow
from plumbline.results.bounded_json import first_error
from plumbline.results.document import Environment, Validity
from plumbline.results.published import PublishedResult


@dataclass(frozen=True)
class ParsedRuns:
    """The rows of a file, each either a result or rejected."""

    results: tuple[PublishedResult, ...]
    rejected: tuple[RejectedRow, ...]


def read_table(table: PublishedTable, lines: Iterable[str], published: Mapping[str, date] | None = None) -> ParsedRuns:
    """The rows of a CSV file with a header. `published` dates the rounds that may occur; those of the table if omitted. ValueError if it is
    no such file; a single bad row never is an error."""
    results: list[PublishedResult] = []
    rejected: list[RejectedRow] = []
    first_lines: dict[str, int] = {}
    for row in table.runs(lines, table.published if published is None else published):
        if isinstance(row, RejectedRow):
            rejected.append(row)
            continue
        try:
            parsed = _result(table, row)
        except ValidationError as error:
            rejected.append(RejectedRow(row.line, first_error(error)))
            continue
        before = first_lines.setdefault(parsed.trial_id, row.line)
        if before != row.line:
            rejected.append(RejectedRow(row.line, f"the same run as line {before}: {parsed.trial_id}"))
            continue
        results.append(parsed)
    return ParsedRuns(tuple(results), tuple(rejected))


def _result(table: PublishedTable, run: PublishedRun) -> PublishedResult:
    return PublishedResult(
        publisher=run.publisher,
        protocol=table.name,
        campaign_id=run.campaign_id,
        reason=run.publisher,
        published_at=datetime.combine(run.published_on, time(), timezone.utc),
        kind=run.kind,
        workload=run.workload,
        provider=run.provider,
        region="unstated",
        instance_type=run.instance_type,
        system=run.system,
        repeat=run.repeat,
        spec=dict(run.spec),
        environment=Environment.of(dict(run.facts)),
        validity=Validity(status="invalid" if run.invalid else "valid", reasons=run.invalid),
        metrics=run.metrics,
        url=run.url,
        original=dict(run.original),
    )
