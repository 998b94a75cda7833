"""The worker's append-only record: JSON lines, one write a line, so that a SIGKILL loses nothing that was done.

Lines are `{"event": NAME, "ns": CLOCK, …}`. The clock is CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share.
Standard library only: the worker imports it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any

from plumbline.harness.training.stages import StageName

Line = dict[str, Any]


class StepLog:
    """Appends lines. Opened for appending and unbuffered: each line reaches the kernel whole before the call returns."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def event(self, name: str, **more: Any) -> None:
        """Something happened now."""
        self.line({"event": name, "ns": monotonic_ns(), **more})

    def line(self, line: Line) -> None:
        """Append one line as it is. OSError if the disk is full."""
        data = (json.dumps(line) + "\n").encode()
        written = os.write(self._handle, data)
        if written < len(data):  # what still fitted on a full disk; the rest raises ENOSPC
            os.write(self._handle, data[written:])


class Tail:
    """Reads the lines that were added since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[Line]:
        """Complete lines only; one that is still being written (or was cut by a kill) is left for later."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass(frozen=True)
class Step:
    """One step that was done. Times in seconds; `start_s` and `end_s` on the shared monotonic clock. `stages` leave out bookkeeping."""

    step: int
    start_s: float
    end_s: float
    stages: Mapping[StageName, float]
    loss: float

    @property
    def step_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Save:
    """One checkpoint: after how many steps, durable at `end_s` after `save_s`, training held up for `blocking_s`. `closing`: after the last
    step. `checksum_s`: for how long training then stood still for this harness's own checksum, which is in none of the others."""

    step: int
    end_s: float
    save_s: float
    blocking_s: float
    bytes: int
    closing: bool
    checksum_s: float = 0.0


@dataclass
class RunRecord:
    """What the worker of rank 0 left behind. `at` holds the moment (seconds) of each event that happens once.

    `compiled_s`: for how long the compiler ran, each time it did. `skipped`: steps that left the weights alone, fp16 having overflowed.
    `peak_memory`: bytes, see `device.peak_memory`; with several ranks of the one that had the most.
    With several ranks, `by_rank` holds each one's steps once the run is over, and `steps` what they make together (see `merge`).
    """

    launched_s: float
    at: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    by_rank: dict[int, list[Step]] = field(default_factory=dict)
    saves: list[Save] = field(default_factory=list)
    verified_loads_s: list[float] = field(default_factory=list)
    restored_exactly: bool | None = None
    rejected: list[str] = field(default_factory=list)
    load_checksum_s: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    matmul_flops: float | None = None
    weights_sha256: str | None = None
    weights_load_s: float | None = None
    compiled_s: list[float] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    peak_memory: dict[str, int] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Take in one line of the worker's log."""
        name, at = str(line["event"]), line["ns"] / 1e9
        if name == "step":
            stages: dict[StageName, float] = {name: spent / 1e9 for name, spent in line["stages"].items()}
            self.steps.append(Step(line["step"], line["start"] / 1e9, at, stages, line["loss"]))
            if line.get("skipped"):
                self.skipped.append(line["step"])
        elif name == "compiled":
            self.compiled_s.append(line["seconds"])
        elif name == "checkpoint":
            seconds = line["blocking"] / 1e9
            durable = at - line["checksum_s"]
            self.saves.append(Save(line["step"], durable, line["save_s"], seconds, line["bytes"], line["closing"], line["summing"] / 1e9))
        elif name == "verified_load":
            self.verified_loads_s.append(line["seconds"])
            self.restored_exactly = line["equal"] and self.restored_exactly is not False
            kept = not line["cold"] or self.facts.get("checkpoint.page_cache") == "kept"
            self.facts["checkpoint.page_cache"] = "kept" if kept else "dropped"
        else:
            self.at[name] = at
            if name == "load_end":
                self.rejected, self.load_checksum_s = line["rejected"], line["checksum_s"]
            elif name == "ready":
                self.facts = line["facts"]
            elif name == "matmul":
                self.matmul_flops = line["flops"]
            elif name == "memory":
                self.peak_memory = line["peak"]
            elif name == "weights_loaded":
                self.weights_load_s = line["seconds"]
            elif name == "weights":
                self.weights_sha256 = line["sha256"]
