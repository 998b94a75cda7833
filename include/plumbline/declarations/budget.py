"""What a provider may be used for in a month, at most."""

from __future__ import annotations

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared


class Budget(Declared):
    """A hard stop for a calendar month (UTC): no trial is planned that would go past it. What is left out has no limit."""

    gpu_hours_per_month: float | None = Field(None, gt=0, description="accelerators × hours that trials hold them, such as 200")
    usd_per_month: float | None = Field(
        None, gt=0, description="the same hours at the accepted, else the declared on-demand price, such as 5000"
    )

    @model_validator(mode="after")
    def _any(self) -> Budget:
        if self.gpu_hours_per_month is None and self.usd_per_month is None:
            raise ValueError("names no limit; expected gpu_hours_per_month, usd_per_month or both")
        return self

    def __str__(self) -> str:
        said = [
            f"{limit:,.10g} {unit}"
            for limit, unit in ((self.gpu_hours_per_month, "GPU-hours"), (self.usd_per_month, "USD"))
            if limit is not None
        ]
        return f"{' and '.join(said)} a month"
