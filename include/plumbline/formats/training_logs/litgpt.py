"""The lines of LitGPT."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class LitGpt(PrintedSteps):
    """A line each iteration; the first one with a new step is the step's last. `iter time` is that of an iteration."""

    name = "litgpt"
    order = 54
    pattern = rf"\biter +\d+ step +(?P<step>\d+) \| loss train: +(?P<loss>{NUMBER}),"
