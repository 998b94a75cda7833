"""MLPerf Training's log: `:::MLLOG` lines among others."""

from __future__ import annotations

from plumbline.formats.reading.command_output import CommandOutput, DeclaredNumbers, Output, UnreadableOutput
from plumbline.formats.reading.lines import json_object, lines_of, numbers
from plumbline.formats.reading.mlperf_training import TARGET_NOT_REACHED
from plumbline.formats.registry import register
from plumbline.metrics.rows import metric_row


@register
class MLPerfTrainingLog(CommandOutput):
    name = "mlperf-log"
    order = 150
    metrics = ("time_to_train", "epochs_to_train")

    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """From run_start to run_stop in seconds, and the epoch of the last evaluation; a run that misses its target has neither."""
        moments: dict[str, float] = {}
        reached, epochs = False, None
        for entry in filter(None, (json_object(line) for line in lines_of(text) if ":::MLL" in line)):
            key, metadata = entry.get("key"), entry.get("metadata") or {}
            if key in ("run_start", "run_stop"):
                moments |= {str(key): number for number in numbers(entry.get("time_ms"), 1e-3)}
                reached = metadata.get("status") == "success"
            elif key == "eval_accuracy":
                epochs = next(iter(numbers(metadata.get("epoch_num"))), epochs)
        if "run_stop" not in moments or "run_start" not in moments:
            raise UnreadableOutput("no :::MLLOG lines with run_start and run_stop")
        found = {"time_to_train": moments["run_stop"] - moments["run_start"], "epochs_to_train": epochs}
        rows = [
            metric_row(name, value if reached else None, int(reached), reason=TARGET_NOT_REACHED.detail)
            for name, value in found.items()
            if value is not None
        ]
        return Output(rows, invalid=() if reached else (TARGET_NOT_REACHED,))
