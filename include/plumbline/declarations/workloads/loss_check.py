"""The loss that a valid training has."""

from __future__ import annotations

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared


class LossCheck(Declared):
    """A valid trial has the loss of step `at_step` (the last one if omitted) within `low`…`high`."""

    low: float
    high: float
    at_step: int | None = Field(None, ge=0, description="counted from 0, warm-up included")

    @model_validator(mode="after")
    def _ordered(self) -> LossCheck:
        if self.high <= self.low:
            raise ValueError(f"high {self.high} is not above low {self.low}; expected a range such as low: 2.0, high: 6.5")
        return self
