"""The lines of Hugging Face's Trainer."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class HuggingFaceLog(PrintedSteps):
    name = "huggingface"
    order = 30
    pattern = rf"\{{['\"]loss['\"]: ['\"]?(?P<loss>{NUMBER})['\"]?,"
