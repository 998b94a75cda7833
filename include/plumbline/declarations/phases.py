"""The phases of a trial, in the only order in which they may come."""

from __future__ import annotations

from typing import Literal, get_args

Phase = Literal["environment", "cold_start", "warmup", "steady", "context", "stress", "sweep", "burst", "fault", "recovery", "cooldown"]
PHASES: tuple[str, ...] = get_args(Phase)
LoadPhase = Literal["warmup", "steady", "context", "stress", "sweep", "burst", "fault", "recovery"]
"""Phases in which the client drives load. Cold start is measured in every inference trial and is not declared."""
