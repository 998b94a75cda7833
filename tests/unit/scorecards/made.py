"""Attempts of trials as plain numbers, made for tests of scorecards."""

from __future__ import annotations

from datetime import date
from typing import Any

from tests.data.plain_rows import plain_row

from plumbline.analysis.trial_sample import Conditions, TrialSample
from plumbline.metrics import METRICS
from plumbline.metrics.rows import MetricRow

ASKED = (("precision", "bf16"), ("requests.output_tokens.constant", 256), ("server.client_placement", "same_node"))
CONDITIONS = Conditions("measured", "h2", "torch", ASKED)


def number(metric: str, value: float | None, phase: str = "steady", statistic: str | None = None, n: int = 120) -> MetricRow:
    """One number in the catalogue's unit."""
    known = METRICS[metric]
    return plain_row(phase, metric, statistic or known.statistic, value, known.unit, known.direction, n)


def launched(repeat: int, lead_s: float | None = None, **changed: Any) -> TrialSample:
    """An attempt of provider a's training workload w, whose launch took `lead_s` (None: nobody saw it)."""
    seen = () if lead_s is None else (number("provisioning_lead_time", lead_s, "cold_start", n=1),)
    fields: dict[str, Any] = {
        "trial_id": f"2026-11.{changed.get('provider', 'a')}.training.w.0200.r{repeat}",
        "provider": "a",
        "kind": "training",
        "workload": "w",
        "version": 1,
        "status": "valid",
        "slot": "02:00",
        "repeat": repeat,
        "started": date(2026, 11, 20),
        "conditions": CONDITIONS,
        **changed,
    }
    fields["metrics"] = (*seen, *fields.get("metrics", ()))
    return TrialSample(**fields)


def refused(repeat: int, failure: str = "insufficient_capacity", **changed: Any) -> TrialSample:
    """An attempt that failed with that class before its harness could start."""
    return launched(repeat, status="failed", failure_class=failure, conditions=None, **changed)
