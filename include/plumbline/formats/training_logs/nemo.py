"""The lines of the framework nemo, and the progress bar of its first version."""

from __future__ import annotations

from plumbline.formats.reading.training_log import NUMBER, PrintedSteps
from plumbline.formats.registry import register


@register
class Nemo(PrintedSteps):
    """The bar names loss and step in another order, and with an equals sign."""

    name = "nemo"
    order = 50
    pattern = (
        rf"^(?=.*?\bglobal_step[:=] ?(?P<step>\d+(?:\.0+)?)\b)(?=.*?\breduced_train_loss[:=] ?(?P<loss>{NUMBER}))"
        rf"(?:.*?\btrain_step_timing in s[:=] ?(?P<seconds>{NUMBER}))?"
    )
