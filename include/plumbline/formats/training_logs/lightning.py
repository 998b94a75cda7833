"""The table of Lightning's CSVLogger."""

from __future__ import annotations

from typing import ClassVar

from plumbline.formats.reading.training_log import StepTable
from plumbline.formats.registry import register


@register
class LightningLog(StepTable):
    name = "lightning"
    order = 60
    file = "**/metrics.csv"
    columns: ClassVar[dict[str, str]] = {"step": "step", "loss": "train_loss|train_loss_step|train/loss|loss"}
