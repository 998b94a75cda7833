"""Read a command's results: lines of JSON, a pattern, nccl-tests' tables, fio's JSON, MLPerf's log."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from plumbline.declarations.workloads.container import ContainerMetric, ContainerTask
from plumbline.harness.measurement import Judgement, invalid
from plumbline.harness.training.script.reports import json_object
from plumbline.results import Curve, MetricRow, metric_curve, metric_row
from plumbline.results.document import Point
from plumbline.results.mlperf_training import TARGET_NOT_REACHED

_LONGEST_LINE = 1 << 20
_MAX_POINTS = 200


@dataclass(frozen=True)
class ContainerResults:
    """What the output says; no row has a value if it says nothing."""

    rows: Sequence[MetricRow]
    curves: Sequence[Curve] = ()
    judgements: Sequence[Judgement] = ()


class UnreadableResults(ValueError):
    """The output is not of the declared format; the message says what was expected."""


def read_results(task: ContainerTask, text: str) -> ContainerResults:
    """The numbers in a command's output, or in its file of results. UnreadableResults."""
    if (reader := _READERS.get(task.results.format)) is not None:
        try:
            return reader(text)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnreadableResults(str(error) if isinstance(error, UnreadableResults) else f"{type(error).__name__}: {error}") from None
    pattern = None if task.results.pattern is None else re.compile(task.results.pattern)
    values = _of_pattern(pattern, task.metrics, text) if pattern else _of_json_lines(task.metrics, text)
    rows = [
        metric_row(name, *_last(seen), reason=f"the results have no {task.metrics[name].field or name}") for name, seen in values.items()
    ]
    if all(row.value is None for row in rows):
        raise UnreadableResults(f"no line matches {task.results.pattern}" if pattern else f"no line of JSON has any of {', '.join(values)}")
    return ContainerResults(rows)


def _last(values: Sequence[float]) -> tuple[float | None, int]:
    finite = [value for value in values if math.isfinite(value)]
    return (finite[-1] if finite else None), len(finite)


def _of_pattern(pattern: re.Pattern[str], metrics: Mapping[str, ContainerMetric], text: str) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for line in _lines(text):
        for match in pattern.finditer(line):
            for name, each in metrics.items():
                values[name] += _number(match[each.field or name], each.scale)
    return values


def _of_json_lines(metrics: Mapping[str, ContainerMetric], text: str) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {name: [] for name in metrics}
    for line in filter(None, map(json_object, _lines(text))):
        for name, each in metrics.items():
            found: Any = line
            for key in (each.field or name).split("."):
                found = found.get(key) if isinstance(found, dict) else None
            values[name] += _number(found, each.scale)
    return values


def _number(value: object, scale: float = 1.0) -> list[float]:
    """The value as a list of one; empty if it is no number."""
    try:
        return [] if value is None or isinstance(value, bool) else [float(str(value).replace(",", "")) * scale]
    except ValueError:
        return []


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if len(line) <= _LONGEST_LINE)


def _of_nccl_tests(text: str) -> ContainerResults:
    """Of the out-of-place columns: bus bandwidth of each size, that of the largest as the number; the time of the smallest."""
    header: list[str] = []
    sizes: dict[float, tuple[float, float]] = {}
    wrong = 0.0
    for line in _lines(text):
        cells = line.lstrip("# ").split()
        if line.startswith("#"):
            header = cells if {"size", "time", "busbw"} <= set(cells) else header
        elif len(cells) == len(header) and header:
            named = dict(zip(reversed(header), reversed(cells), strict=True))  # of a name that comes twice, the first column counts
            values = [number for name in ("size", "time", "busbw") for number in _number(named[name])]
            if len(values) == 3:
                sizes[values[0]] = (values[1] * 1e-6, values[2] * 1e9)
                wrong += sum(number for name, cell in zip(header, cells, strict=True) if name == "#wrong" for number in _number(cell))
    if not sizes:
        raise UnreadableResults("no table of nccl-tests with the columns size, time and busbw")
    smallest, largest = min(sizes), max(sizes)
    rows = [
        metric_row("collective_bus_bandwidth", sizes[largest][1], 1, method=f"{largest:.0f} bytes"),
        metric_row("collective_latency", sizes[smallest][0], 1, method=f"{smallest:.0f} bytes"),
    ]
    points = (Point(at=size, value=sizes[size][1], n=1) for size in sorted(sizes)[-_MAX_POINTS:])
    curve = metric_curve("collective_bus_bandwidth", "message_bytes", points)
    wrong_values = [invalid("wrong_results", f"nccl-tests found {wrong:.0f} wrong values")] if wrong else []
    return ContainerResults(rows, [curve], wrong_values)


def _of_fio(text: str) -> ContainerResults:
    """Sums over the jobs; of latencies the highest of them."""
    start = text.find("{\n")
    if start < 0:
        raise UnreadableResults("no JSON of fio; expected its --output-format=json")
    jobs = from_json(text[start : text.rfind("\n}") + 2])["jobs"]
    rows = []
    for way in ("read", "write"):
        done = [side for job in jobs if (side := job[way])["total_ios"]]
        n = int(sum(side["total_ios"] for side in done))
        if done:
            rows.append(metric_row(f"storage_{way}_bandwidth", sum(side["bw_bytes"] for side in done), n))
            rows.append(metric_row(f"storage_{way}_rate", sum(side["iops"] for side in done), n))
        for statistic, rank in (("p50", "50.000000"), ("p99", "99.000000")):
            slowest = [number for side in done for number in _number(side.get("clat_ns", {}).get("percentile", {}).get(rank), 1e-9)]
            if slowest:
                rows.append(metric_row(f"storage_{way}_latency", max(slowest), n, statistic=statistic))
    if not rows:
        raise UnreadableResults("fio's JSON has no job that read or wrote")
    return ContainerResults(rows)


def _of_mlperf_log(text: str) -> ContainerResults:
    """From run_start to run_stop, and the epoch of the last evaluation."""
    moments: dict[str, float] = {}
    reached, epochs = False, None
    for entry in filter(None, (json_object(line) for line in _lines(text) if ":::MLL" in line)):
        key, metadata = entry.get("key"), entry.get("metadata") or {}
        if key in ("run_start", "run_stop"):
            moments |= {str(key): number for number in _number(entry.get("time_ms"), 1e-3)}
            reached = metadata.get("status") == "success"
        elif key == "eval_accuracy":
            epochs = next(iter(_number(metadata.get("epoch_num"))), epochs)
    if "run_stop" not in moments or "run_start" not in moments:
        raise UnreadableResults("no :::MLLOG lines with run_start and run_stop")
    took = moments["run_stop"] - moments["run_start"] if reached else None
    rows = [metric_row("time_to_train", took, int(reached), reason=TARGET_NOT_REACHED.detail)]
    rows += (
        []
        if epochs is None
        else [metric_row("epochs_to_train", epochs if reached else None, int(reached), reason=TARGET_NOT_REACHED.detail)]
    )
    return ContainerResults(rows, judgements=() if reached else (Judgement("invalid", TARGET_NOT_REACHED),))


_READERS: dict[str, Callable[[str], ContainerResults]] = {
    "nccl-tests": _of_nccl_tests,
    "fio-json": _of_fio,
    "mlperf-log": _of_mlperf_log,
}
