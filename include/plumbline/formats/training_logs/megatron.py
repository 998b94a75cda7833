"""The lines of Megatron-LM."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class Megatron(PrintedSteps):
    name = "megatron"
    order = 40
    pattern = (
        rf"\biteration +(?P<step>\d+)/ *\d+ \|.*?elapsed time per iteration \(ms\): +(?P<milliseconds>{NUMBER})[/0-9. ]*(?=\|)"
        rf".*?\| (?:lm )?loss: +(?P<loss>{NUMBER})"
    )
