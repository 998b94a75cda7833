"""Runs of MLPerf Training, one a row of a CSV file, as outside results: a row becomes a result, or is rejected with its line and why.

A series is one submitter's runs of one benchmark at one global batch on so many accelerators of one product. Two systems of the same
shape are two slots of it: other chassis, same promise. The round is the campaign; driver, CUDA, NCCL and framework are environment.
The file says how long a run took and nothing of the samples it needed, so no throughput can be derived.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone

from pydantic import ValidationError

from plumbline.results.bounded_json import first_error
from plumbline.results.document import Environment, Reason, Scalar, Validity, metric_row
from plumbline.results.published import PublishedResult, slug

MLPERF_COLUMNS = (
    "round", "submitter", "system_id", "system_name", "accelerator", "nodes", "accel_per_node", "benchmark", "run", "minutes_to_train",
    "status", "global_batch", "cuda", "driver", "nccl", "framework", "availability",
)  # fmt: skip
MLPERF_ROUNDS = {"v4.1": date(2024, 11, 13), "v5.0": date(2025, 6, 4), "v5.1": date(2025, 11, 12)}
"""Round → date of its publication by MLCommons, the campaign's date."""
TARGET_NOT_REACHED = Reason(code="target_not_reached", detail="the run ended before it reached the target quality")


@dataclass(frozen=True)
class RejectedRow:
    """A row that did not become a result. `line` counts from 1 with the header, as editors do."""

    line: int
    reason: str


@dataclass(frozen=True)
class ParsedRuns:
    """The rows of a file, each either a result or rejected."""

    results: tuple[PublishedResult, ...]
    rejected: tuple[RejectedRow, ...]


def parse_mlperf(lines: Iterable[str], published: Mapping[str, date] = MLPERF_ROUNDS) -> ParsedRuns:
    """The runs of a CSV file with a header. `published` dates the rounds that may occur.

    ValueError if it isn't such a file: columns are missing, or its text cannot be split into rows. A single bad row never is an error.
    """
    try:
        return _parsed(csv.DictReader(lines, restkey="surplus"), published)
    except csv.Error as error:
        raise ValueError(f"the file is not CSV ({error}); expected text with a header and one run a row") from error


def _parsed(reader: csv.DictReader[str], published: Mapping[str, date]) -> ParsedRuns:
    missing = [name for name in MLPERF_COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"the file has no column {', '.join(missing)}; expected a header with {', '.join(MLPERF_COLUMNS)}")
    results: list[PublishedResult] = []
    rejected: list[RejectedRow] = []
    first_lines: dict[str, int] = {}
    for fields in reader:
        line = reader.line_num
        try:
            parsed = _result(fields, published)
        except ValueError as error:
            rejected.append(RejectedRow(line, first_error(error) if isinstance(error, ValidationError) else str(error)))
            continue
        before = first_lines.setdefault(parsed.trial_id, line)
        if before != line:
            rejected.append(RejectedRow(line, f"the same run as line {before}: {parsed.trial_id}"))
            continue
        results.append(parsed)
    return ParsedRuns(tuple(results), tuple(rejected))


def _result(fields: Mapping[str, str | None], published: Mapping[str, date]) -> PublishedResult:
    if "surplus" in fields:
        raise ValueError(f"{len(fields['surplus'] or ())} values more than there are columns; expected {len(MLPERF_COLUMNS)}")
    short = [name for name in MLPERF_COLUMNS if fields[name] is None]
    if short:
        raise ValueError(f"the row ends before {short[0]}; expected {len(MLPERF_COLUMNS)} values")
    cells = {name: (fields[name] or "").strip() for name in MLPERF_COLUMNS}
    mlperf_round = cells["round"]
    if mlperf_round not in published:
        raise ValueError(
            f'round: "{mlperf_round}" has no publication date; expected one of {", ".join(published)}, or its date with --round'
        )
    minutes = _positive_number(cells["minutes_to_train"], "minutes_to_train")
    reached = cells["status"] == "success"
    if cells["status"] not in ("success", "aborted"):
        raise ValueError(f'status: "{cells["status"]}"; expected success or aborted')
    benchmark, batch = cells["benchmark"], _whole_number(cells["global_batch"], "global_batch")
    nodes, accelerators = _whole_number(cells["nodes"], "nodes"), _whole_number(cells["accel_per_node"], "accel_per_node")
    reasons = () if reached else (TARGET_NOT_REACHED,)
    return PublishedResult(
        publisher=f"MLPerf Training {mlperf_round}",
        protocol="mlperf-training",
        campaign_id=f"mlperf-training-{mlperf_round}",
        reason=f"MLPerf Training {mlperf_round}",
        published_at=datetime.combine(published[mlperf_round], time(), timezone.utc),
        kind="training",
        workload=f"mlperf-{slug(benchmark)}-batch-{batch}",
        provider=slug(cells["submitter"]),
        region="unstated",
        instance_type=f"{nodes}x{accelerators}-{slug(cells['accelerator'])}",
        system=slug(cells["system_id"]),
        repeat=_whole_number(cells["run"], "run", least=0),
        spec={"benchmark": benchmark, "global_batch": batch},
        environment=Environment.of(_facts(cells, nodes, accelerators)),
        validity=Validity(status="valid" if reached else "invalid", reasons=reasons),
        metrics=(metric_row("time_to_train", minutes * 60 if reached else None, 1 if reached else 0),),
        url=f"https://github.com/mlcommons/training_results_{mlperf_round}",
        original={name: fields[name] or "" for name in MLPERF_COLUMNS},
    )


def _facts(cells: Mapping[str, str], nodes: int, accelerators: int) -> dict[str, Scalar]:
    facts: dict[str, Scalar] = {
        "gpu.product": cells["accelerator"],
        "gpu.count": accelerators,
        "training.nodes": nodes,
        "host.product": cells["system_name"],
        "framework.release": cells["framework"],
        "location.availability": cells["availability"],
    }
    # Blanks within a version and a leading v are how submitters type, not other versions.
    versions = {f"{name}.version": cells[name].replace(" ", "").removeprefix("v") for name in ("driver", "cuda", "nccl")}
    return facts | {key: version for key, version in versions.items() if version}


def _whole_number(text: str, name: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f'{name}: "{text}" is not a whole number of at least {least}')
    return int(text)


def _positive_number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f'{name}: "{text}" is not a positive number')
    return value
