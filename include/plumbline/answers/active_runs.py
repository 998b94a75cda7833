"""Runs of Plumbline's DAGs that Airflow runs now, or has queued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True)
class ActiveRun:
    """`since`: its start, or when it was queued; None before Airflow has noted it. `trials`: those planned, 0 before the plan and in DAGs that
    measure nothing; `done` of them have ended. `path`: its page in Airflow."""

    dag_id: str
    state: Literal["running", "queued"]
    since: datetime | None
    trials: int
    done: int
    path: str


ReadActiveRuns = Callable[[], Sequence[ActiveRun]]
"""The running ones first, the oldest first."""
