"""Quick probe of a node without a trial: the environment, matrix products, memory and copies, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from plumbline.harness import environment, probes
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.delivery import open_store
from plumbline.harness.environment.cpu import usable_cores
from plumbline.results import Environment, MetricRow
from plumbline.results.document import PROBE_LIMIT_S, ProbeDocument

_PROBES: tuple[probes.ProbeName, ...] = ("matmul", "memory", "copy")


def quick_probe(folder: Path, limit_s: float = PROBE_LIMIT_S, wanted: Sequence[probes.ProbeName] = _PROBES) -> ProbeDocument:
    """Probe once, for at most `limit_s` seconds (the facts alone take a few). `folder`: scratch space."""
    began = time.monotonic()
    seen = Environment.of(environment.collect_facts())
    cuda = bool(seen.facts.get("gpu.count"))
    rows: list[MetricRow] = []
    left_out: dict[str, str] = {}
    with ContentionMonitor(usable_cores()) as monitor, monitor.phase("environment"):
        for name in wanted:
            if name == "copy" and not cuda:
                continue
            left_s = limit_s - (time.monotonic() - began)
            if left_s <= 0:
                left_out[name] = f"not started: the time limit of {limit_s:g} s had passed"
                continue
            found = probes.run(usable_cores(), folder, "cuda" if cuda else "cpu", only=(name,), limit_s=left_s, gpus=1)
            rows += found
            if found and all(row.value is None for row in found):
                left_out[name] = next((row.reason for row in found if row.reason), "not measured")
    foreign = next((row.mean for row in monitor.telemetry() if row.signal == "foreign_cpu"), None)
    return ProbeDocument(
        harness_version=version("plumbline"),
        taken_at=datetime.now(timezone.utc),
        seconds=round(time.monotonic() - began, 3),
        environment=seen,
        metrics=tuple(rows),
        foreign_cpu=None if cuda or foreign is None else min(foreign, 1.0),
        left_out=left_out,
    )


def store_probe(document: ProbeDocument, out: str) -> None:
    """Store atomically at an fsspec URL or as a file. OSError if that fails; UnusableStore for an invalid URL."""
    text = document.model_dump_json(indent=1).encode()
    if "://" in out:
        home, _, name = out.rpartition("/")
        open_store(home).put(name, text)
        return
    draft = Path(f"{out}.part")
    draft.write_bytes(text)
    draft.replace(out)
