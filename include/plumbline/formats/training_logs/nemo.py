"""The lines of the framework nemo."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class Nemo(PrintedSteps):
    name = "nemo"
    order = 50
    pattern = rf"\bglobal_step: (?P<step>\d+) \|.*?\breduced_train_loss: (?P<loss>{NUMBER})(?:.*?\btrain_step_timing in s: (?P<seconds>{NUMBER}))?"
