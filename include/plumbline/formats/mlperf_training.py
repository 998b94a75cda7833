"""Runs of MLPerf Training, one a row of a CSV file.

A series is one submitter's runs of one benchmark at one global batch on so many accelerators of one product. Two systems of the same
shape are two slots of it: other chassis, same promise. The round is the campaign; driver, CUDA, NCCL and framework are environment.
The file says how long a run took and nothing of the samples it needed, so no throughput can be derived.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import ClassVar

from plumbline.formats.reading.foreign_number import MAX_COUNT, MAX_NUMBER, ForeignNumber, described, number, whole
from plumbline.formats.reading.mlperf_training import TARGET_NOT_REACHED
from plumbline.formats.reading.names import slug
from plumbline.formats.reading.published_table import PublishedRun, PublishedTable, RejectedRow
from plumbline.formats.registry import register
from plumbline.metrics.rows import Scalar, metric_row

COLUMNS = (
    "round", "submitter", "system_id", "system_name", "accelerator", "nodes", "accel_per_node", "benchmark", "run", "minutes_to_train",
    "status", "global_batch", "cuda", "driver", "nccl", "framework", "availability",
)  # fmt: skip


@register
class MLPerfTraining(PublishedTable):
    name = "mlperf-training"
    order = 210
    published: ClassVar[Mapping[str, date]] = {"v4.1": date(2024, 11, 13), "v5.0": date(2025, 6, 4), "v5.1": date(2025, 11, 12)}
    """Dates on which MLCommons published the rounds, which are the campaigns' dates."""

    def runs(self, lines: Iterable[str], published: Mapping[str, date]) -> Iterator[PublishedRun | RejectedRow]:
        """ValueError also where columns are missing, or the text cannot be split into rows."""
        reader = csv.DictReader(lines, restkey="surplus")
        try:
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"the file has no column {', '.join(missing)}; expected a header with {', '.join(COLUMNS)}")
            for fields in reader:
                line = reader.line_num
                try:
                    run: PublishedRun | RejectedRow = _run(line, fields, published)
                except ValueError as error:
                    run = RejectedRow(line, str(error))
                yield run
        except csv.Error as error:
            raise ValueError(f"the file is not CSV ({error}); expected text with a header and one run a row") from error


def _run(line: int, fields: Mapping[str, str | None], published: Mapping[str, date]) -> PublishedRun:
    if "surplus" in fields:
        raise ValueError(f"{len(fields['surplus'] or ())} values more than there are columns; expected {len(COLUMNS)}")
    short = [name for name in COLUMNS if fields[name] is None]
    if short:
        raise ValueError(f"the row ends before {short[0]}; expected {len(COLUMNS)} values")
    cells = {name: (fields[name] or "").strip() for name in COLUMNS}
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
    return PublishedRun(
        line=line,
        publisher=f"MLPerf Training {mlperf_round}",
        campaign_id=f"{MLPerfTraining.name}-{mlperf_round}",
        published_on=published[mlperf_round],
        kind="training",
        workload=f"mlperf-{slug(benchmark)}-batch-{batch}",
        provider=slug(cells["submitter"]),
        instance_type=f"{nodes}x{accelerators}-{slug(cells['accelerator'])}",
        system=slug(cells["system_id"]),
        repeat=_whole_number(cells["run"], "run", least=0),
        spec={"benchmark": benchmark, "global_batch": batch},
        facts=_facts(cells, nodes, accelerators),
        metrics=(metric_row("time_to_train", minutes * 60 if reached else None, 1 if reached else 0),),
        url=f"https://github.com/mlcommons/training_results_{mlperf_round}",
        original={name: fields[name] or "" for name in COLUMNS},
        invalid=() if reached else (TARGET_NOT_REACHED,),
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
    try:
        return whole(text if text.isdecimal() else None, least=least)
    except ForeignNumber:
        raise ValueError(f"{name}: {described(text)} is not a whole number of at least {least} and at most {MAX_COUNT:g}") from None


def _positive_number(text: str, name: str) -> float:
    try:
        return number(text, least=0.0, above=True)
    except ForeignNumber:
        raise ValueError(f"{name}: {described(text)} is not a positive number of at most {MAX_NUMBER:g}") from None
