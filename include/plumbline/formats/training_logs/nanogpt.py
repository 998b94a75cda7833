"""The lines of nanoGPT."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class NanoGpt(PrintedSteps):
    name = "nanogpt"
    order = 10
    pattern = rf"\biter (?P<step>\d+): loss (?P<loss>{NUMBER}), time (?P<milliseconds>{NUMBER})ms"
