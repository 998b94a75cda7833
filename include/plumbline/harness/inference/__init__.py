"""Inference: a real server, a load that was computed before, and what its client saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plumbline.declarations import Trial
    from plumbline.harness.contention_monitor import ContentionMonitor
    from plumbline.harness.launcher_protocol import Progress
    from plumbline.harness.measurement import Measurement
    from plumbline.results import MetricRow


def measure(trial: Trial, workdir: Path, progress: Progress, watch: ContentionMonitor, probed: Sequence[MetricRow] = ()) -> Measurement:
    """Measure one inference trial; raises TrialFailed with what was measured until then. `probed`: what the hardware probes found.

    The import waits, so that planning can compute an arrival schedule without the client's libraries.
    """
    from plumbline.harness.inference import trial as flow

    return flow.measure(trial, workdir, progress, watch, probed)
