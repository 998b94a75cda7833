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

from plumbline.results.document import Environment, Reason, Scalar, Validity, row
from plumbline.results.outside import OutsideResult, slug

COLUMNS = (
    "round", "submitter", "system_id", "system_name", "accelerator", "nodes", "accel_per_node", "benchmark", "run", "minutes_to_train",
    "status", "global_batch", "cuda", "driver", "nccl", "framework", "availability",
)  # fmt: skip
PUBLISHED = {"v4.1": date(2024, 11, 13), "v5.0": date(2025, 6, 4), "v5.1": date(2025, 11, 12)}
"""When MLCommons published a round: the campaign's date."""


@dataclass(frozen=True)
class Rejected:
    """A row that did not become a result. `line` counts from 1 with the header, as editors do."""

    line: int
    reason: str


@dataclass(frozen=True)
class Parsed:
    """What a file holds. Every row is in one of the two."""

    results: tuple[OutsideResult, ...]
    rejected: tuple[Rejected, ...]


def parse(lines: Iterable[str], published: Mapping[str, date] = PUBLISHED) -> Parsed:
    """The runs of a CSV file with a header. `published` dates the rounds that may occur.

    ValueError if it isn't such a file: columns are missing, or its text cannot be split into rows. A single bad row never is an error.
    """
    try:
        return _parsed(csv.DictReader(lines, restkey="surplus"), published)
    except csv.Error as error:
        raise ValueError(f"the file is not CSV ({error}); expected text with a header and one run a row") from error


def _parsed(reader: csv.DictReader[str], published: Mapping[str, date]) -> Parsed:
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"the file has no column {', '.join(missing)}; expected a header with {', '.join(COLUMNS)}")
    results: list[OutsideResult] = []
    rejected: list[Rejected] = []
    first_lines: dict[str, int] = {}
    for fields in reader:
        line = reader.line_num
        try:
            found = _result(fields, published)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            rejected.append(Rejected(line, f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"))
            continue
        except ValueError as error:
            rejected.append(Rejected(line, str(error)))
            continue
        before = first_lines.setdefault(found.trial_id, line)
        if before != line:
            rejected.append(Rejected(line, f"the same run as line {before}: {found.trial_id}"))
            continue
        results.append(found)
    return Parsed(tuple(results), tuple(rejected))


def _result(fields: Mapping[str, str | None], published: Mapping[str, date]) -> OutsideResult:
    if "surplus" in fields:
        raise ValueError(f"{len(fields['surplus'] or ())} values more than there are columns; expected {len(COLUMNS)}")
    short = [name for name in COLUMNS if fields[name] is None]
    if short:
        raise ValueError(f"the row ends before {short[0]}; expected {len(COLUMNS)} values")
    given = {name: (fields[name] or "").strip() for name in COLUMNS}
    told = given["round"]
    if told not in published:
        raise ValueError(f'round: "{told}" has no date of publication; known are {", ".join(published)} (give others with --round)')
    minutes = _number(given["minutes_to_train"], "minutes_to_train")
    reached = given["status"] == "success"
    if given["status"] not in ("success", "aborted"):
        raise ValueError(f'status: "{given["status"]}"; expected success or aborted')
    benchmark, batch = given["benchmark"], _count(given["global_batch"], "global_batch")
    nodes, accelerators = _count(given["nodes"], "nodes"), _count(given["accel_per_node"], "accel_per_node")
    reasons = () if reached else (Reason(code="target_not_reached", detail="the run ended before it reached the target quality"),)
    return OutsideResult(
        publisher=f"MLPerf Training {told}",
        protocol="mlperf-training",
        campaign_id=f"mlperf-training-{told}",
        reason=f"MLPerf Training {told}",
        published_at=datetime.combine(published[told], time(), timezone.utc),
        kind="training",
        workload=f"mlperf-{slug(benchmark)}-batch-{batch}",
        provider=slug(given["submitter"]),
        region="unstated",
        instance_type=f"{nodes}x{accelerators}-{slug(given['accelerator'])}",
        system=slug(given["system_id"]),
        repeat=_count(given["run"], "run", least=0),
        spec={"benchmark": benchmark, "global_batch": batch},
        environment=Environment.of(_facts(given, nodes, accelerators)),
        validity=Validity(status="valid" if reached else "invalid", reasons=reasons),
        metrics=(row("time_to_train", minutes * 60 if reached else None, 1 if reached else 0),),
        url=f"https://github.com/mlcommons/training_results_{told}",
        original={name: fields[name] or "" for name in COLUMNS},
    )


def _facts(given: Mapping[str, str], nodes: int, accelerators: int) -> dict[str, Scalar]:
    """The environment by the names that the harness uses. What a submitter left out is absent: nobody knows that it was none."""
    facts: dict[str, Scalar] = {
        "gpu.product": given["accelerator"],
        "gpu.count": accelerators,
        "training.nodes": nodes,
        "host.product": given["system_name"],
        "framework.release": given["framework"],
        "location.availability": given["availability"],
    }
    # Blanks within a version and a leading v are how submitters type, not other versions.
    versions = {f"{name}.version": given[name].replace(" ", "").removeprefix("v") for name in ("driver", "cuda", "nccl")}
    return facts | {key: version for key, version in versions.items() if version}


def _count(text: str, name: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f'{name}: "{text}" is not a whole number of at least {least}')
    return int(text)


def _number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f'{name}: "{text}" is not a positive number')
    return value
