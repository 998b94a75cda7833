"""The lines of DeepSpeed's pipeline engine."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class DeepSpeed(PrintedSteps):
    name = "deepspeed"
    order = 56
    pattern = rf"\bsteps: +(?P<step>\d+) loss: +(?P<loss>{NUMBER}) iter time \(s\): +(?P<seconds>{NUMBER})"
