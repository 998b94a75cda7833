"""The lines of Megatron-LM, and of Megatron-DeepSpeed and gpt-neox, which print them alike."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class Megatron(PrintedSteps):
    """An iteration whose fp16 gradients overflow is skipped: it has no loss."""

    name = "megatron"
    order = 40
    pattern = (
        rf"\biteration +(?P<step>\d+)/ *\d+ \|.*?elapsed time per iteration "
        rf"\((?:ms\): +(?P<milliseconds>{NUMBER})|s\): +(?P<seconds>{NUMBER}))[/0-9. ]*(?=\|)"
        rf"(?:.*?\| (?:lm[ _])?loss: +(?P<loss>{NUMBER}))?"
    )
