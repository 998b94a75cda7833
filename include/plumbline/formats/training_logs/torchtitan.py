"""The lines of torchtitan."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class Torchtitan(PrintedSteps):
    name = "torchtitan"
    order = 20
    pattern = rf"\bstep: +(?P<step>[0-9,]+) .*?\bloss: +(?P<loss>{NUMBER})"
