"""Quick probe of a node without a trial: the environment, matrix products, memory and copies, within a time limit."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from plumbline.harness import environment, probes
from plumbline.harness.cpu_usage import core_times
from plumbline.harness.environment.cpu import usable_cores
from plumbline.harness.run import open_store
from plumbline.results import Environment, MetricRow
from plumbline.results.document import PROBE_LIMIT_S, ProbeDocument

_PROBES: tuple[probes.ProbeName, ...] = ("matmul", "memory", "copy")


def quick_probe(folder: Path, limit_s: float = PROBE_LIMIT_S, wanted: Sequence[probes.ProbeName] = _PROBES) -> ProbeDocument:
    """Look once, for `limit_s` seconds at most (the facts alone take a few). `folder` is for scratch."""
    began = time.monotonic()
    seen = Environment.of(environment.collect_facts())
    cuda = bool(seen.facts.get("gpu.count"))
    before = None if cuda else _cpu_sample(usable_cores())
    rows: list[MetricRow] = []
    left_out: dict[str, str] = {}
    for name in wanted:
        if name == "copy" and not cuda:
            continue
        left_s = limit_s - (time.monotonic() - began)
        if left_s <= 0:
            left_out[name] = f"the limit of {limit_s:g} s was over"
            continue
        found = probes.run(usable_cores(), folder, "cuda" if cuda else "cpu", only=(name,), limit_s=left_s, gpus=1)
        rows += found
        if found and all(row.value is None for row in found):
            left_out[name] = next((row.reason for row in found if row.reason), "not measured")
    return ProbeDocument(
        harness_version=version("plumbline"),
        taken_at=datetime.now(timezone.utc),
        seconds=round(time.monotonic() - began, 3),
        environment=seen,
        metrics=tuple(rows),
        foreign_cpu=None if before is None else _foreign_share(before, _cpu_sample(usable_cores())),
        left_out=left_out,
    )


@dataclass(frozen=True)
class _CpuSample:
    """Of some cores at a moment: `at_s` on the clock, seconds idle since boot, and CPU seconds of this process and those that it waited for."""

    cores: int
    at_s: float
    idle_s: float
    own_s: float


def _cpu_sample(cpus: Sequence[int]) -> _CpuSample | None:
    """None where the kernel does not tell."""
    try:
        idle = core_times(cpus).idle_s
    except (OSError, ValueError):
        return None
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return _CpuSample(len(cpus), time.monotonic(), idle, sum(each.ru_utime + each.ru_stime for each in own))


def _foreign_share(before: _CpuSample, after: _CpuSample | None) -> float | None:
    """The share of the cores' time between that was neither idle nor ours; None where it cannot be told."""
    if after is None or after.cores != before.cores or after.at_s <= before.at_s:
        return None
    there = (after.at_s - before.at_s) * before.cores
    busy = there - (after.idle_s - before.idle_s)
    return min(max((busy - (after.own_s - before.own_s)) / there, 0.0), 1.0)


def store_probe(document: ProbeDocument, out: str) -> None:
    """Store it whole or not at all: at an fsspec URL of the object, or as a file. OSError if that fails; UnusableStore if the URL is none."""
    text = document.model_dump_json(indent=1).encode()
    if "://" in out:
        home, _, name = out.rpartition("/")
        open_store(home).put(name, text)
        return
    draft = Path(f"{out}.part")
    draft.write_bytes(text)
    draft.replace(out)
