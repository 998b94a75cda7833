"""The runs of a benchmark tool's file as published results of a declared provider and workload."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import date, datetime, time, timezone

from pydantic import ValidationError

from plumbline.declarations import InferenceWorkload, Provider
from plumbline.formats import BenchmarkFile, Run, UnreadableFile
from plumbline.formats.reading.names import slug
from plumbline.metrics import METRICS
from plumbline.metrics.rows import Scalar
from plumbline.results.bounded_json import first_error
from plumbline.results.document import Environment, Validity
from plumbline.results.published import PublishedResult, SourceFile

_SHORT = 16
"""Hexadecimal digits of the file's SHA-256 that name its campaign."""


def published_results(
    read: BenchmarkFile, raw: bytes, name: str, provider: Provider, workload: InferenceWorkload, day: date | None = None
) -> list[PublishedResult]:
    """One result for each run. The file's SHA-256 names their campaign, so that the same file is the same campaign.

    `day`: of the measurement, where the file does not say. ValueError if neither says it, or if they differ."""
    source = SourceFile(name=name, sha256=hashlib.sha256(raw).hexdigest(), tool=read.tool, tool_version=read.version)
    repeats: Counter[str] = Counter()
    try:
        return [_result(read, run, source, _day(run.day or read.day, name, day), provider, workload, repeats) for run in read.runs]
    except ValidationError as error:
        raise UnreadableFile(f"{name}: {first_error(error)}") from error


def _day(stated: date | None, name: str, day: date | None) -> date:
    if stated is not None and day is not None and day != stated:
        raise ValueError(f"{name}: --date is {day}, the file says {stated}; expected no --date, or the same day")
    measured_on = stated or day
    if measured_on is None:
        raise ValueError(f"{name}: the file does not say when it was measured; expected --date, such as --date 2026-11-23")
    return measured_on


def _result(
    read: BenchmarkFile,
    run: Run,
    source: SourceFile,
    day: date,
    provider: Provider,
    workload: InferenceWorkload,
    repeats: Counter[str],
) -> PublishedResult:
    tool, system = slug(read.tool), slug(run.load.name)
    repeats[system] += 1
    metrics = tuple(sorted(run.metrics, key=lambda row: list(METRICS).index(row.metric)))
    facts: dict[str, Scalar] = {"tool.name": read.tool, "tool.version": read.version}
    publisher = f"{read.tool} {read.version}" if read.version else read.tool
    return PublishedResult(
        publisher=publisher,
        protocol=tool,
        campaign_id=f"{tool}-{source.sha256[:_SHORT]}",
        reason=f"{source.name}, {publisher}, {day}",
        published_at=datetime.combine(day, time(), timezone.utc),
        kind="inference",
        workload=workload.name,
        version=workload.version,
        provider=provider.name,
        region=provider.region,
        instance_type=provider.instance_type,
        system=system,
        repeat=repeats[system],
        spec=_spec(run),
        environment=Environment.of(facts),
        validity=Validity(status="invalid", reasons=run.invalid) if run.invalid else Validity(status="valid"),
        metrics=metrics,
        original={f"{row.metric} {row.statistic}": row.method or "" for row in metrics},
        source=source,
        gaps=run.gaps,
    )


def _spec(run: Run) -> dict[str, Scalar]:
    load = run.load
    return {
        "load": str(load),
        "load.kind": load.kind,
        "load.concurrency": load.concurrency,
        "load.rate": load.rate,
        "load.arrivals": load.arrivals,
        **{name: value for name, value in (("load.cv", load.cv), ("load.varies", load.varies)) if value is not None},
        "requests": run.requests,
        **run.asked,
    }
