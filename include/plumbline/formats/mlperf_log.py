"""MLPerf Training's log: `:::MLLOG` lines among others."""

from __future__ import annotations

import re
from typing import Any

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import json_object, lines_of, numbers
from plumbline.formats.reading.mlperf_training import TARGET_NOT_REACHED
from plumbline.formats.registry import register
from plumbline.metrics.rows import metric_row

_OLD = re.compile(r":::MLL\S* (\d+\.\d+) (\w+): \{")


@register
class MLPerfTrainingLog(CommandOutput):
    name = "mlperf-log"
    order = 150
    lines = ":::MLL"
    metrics = ("time_to_train", "epochs_to_train")

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """From the last run_start to its run_stop in seconds, and the epoch of the last evaluation; a run that misses its target has neither."""
        start = stop = epochs = samples = None
        reached = False
        for key, at, value, metadata in map(_entry, lines_of(text)):
            if key == "run_start":
                start, stop, epochs, samples, reached = at, None, None, None, False
            elif key == "run_stop":
                stop, reached = at, metadata.get("status") == "success"
            elif key == "eval_accuracy":
                epochs = next(iter(numbers(metadata.get("epoch_num"))), epochs)
            elif key == "train_samples":
                samples = next(iter(numbers(value)), samples)
        if start is None or stop is None:
            missing = "run_stop after the last run_start: the run was ended from outside" if start is not None else "run_start"
            raise UnreadableOutput(f"no :::MLLOG line {missing}; expected run_start and run_stop")
        in_samples = epochs is not None and epochs == samples
        reason = "its epoch_num counts samples" if in_samples else TARGET_NOT_REACHED.detail
        found = {"time_to_train": stop - start, **({} if epochs is None else {"epochs_to_train": None if in_samples else epochs})}
        rows = [
            metric_row(name, value if reached else None, int(reached and value is not None), reason=reason) for name, value in found.items()
        ]
        return Output(rows, invalid=() if reached else (TARGET_NOT_REACHED,))


def _entry(line: str) -> tuple[str, float | None, Any, dict[str, Any]]:
    """Key, moment in seconds, value and metadata of a line; an empty key of another one. Before version 0.7 key and moment were outside of the object."""
    entry = json_object(line) if ":::MLL" in line else None
    if entry is None:
        return "", None, None, {}
    old = _OLD.search(line)
    key, moment, scale = (old[2], old[1], 1.0) if old is not None else (str(entry.get("key")), entry.get("time_ms"), 1e-3)
    return key, next(iter(numbers(moment, scale)), None), entry.get("value"), entry.get("metadata") or {}
