"""What one trial has measured so far, and how far it has come: handed from step to step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from plumbline.declarations import InferenceWorkload, Trial
from plumbline.declarations.load import longest
from plumbline.harness.inference import evidence
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.measurement import Measurement
from plumbline.harness.progress import Progress
from plumbline.harness.watch import Watch
from plumbline.results import Event, MetricRow

OVERHEAD_S = 5.0
"""What a trial takes besides its load: only progress is reckoned with it."""


@dataclass
class Record:
    """`probed`: what the hardware probes found. `logs`: one a phase of load, or one a probe of a search."""

    trial: Trial
    workload: InferenceWorkload
    workdir: Path
    progress: Progress
    watch: Watch
    probed: Sequence[MetricRow]
    result: Measurement
    logs: list[RequestLog] = field(default_factory=list)
    done_s: float = 0.0
    _told: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds that the trial takes at most, if nothing has to drain."""
        return OVERHEAD_S + sum(longest(phase) for phase in self.workload.phases)

    def event(self, name: str, monotonic_s: float | None = None) -> None:
        """Note a moment on the timeline: now, or `monotonic_s`."""
        now = time.monotonic()
        at = now if monotonic_s is None else monotonic_s
        self.result.events.append(Event(name=name, utc=datetime.fromtimestamp(time.time() - (now - at), timezone.utc), monotonic_s=at))

    def report(self, phase: str, into_s: float, note: str) -> None:
        """Tell how far the trial is, never less far than before: `into_s` seconds into what comes after all that is done."""
        self._told = max(self._told, min((self.done_s + into_s) / self.total_s, 1.0))
        self.progress(phase, self._told, note)

    def measured(self) -> Measurement:
        """The measurement so far, with the requests seen until now."""
        seen = [item for item in self.result.evidence if item.kind != "requests"]
        self.result.evidence = [*seen, evidence.write_requests(self.logs, self.workload.requests, self.workdir)] if self.logs else seen
        return self.result
