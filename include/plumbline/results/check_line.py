"""A line of the harness's self-check, as a result document carries it."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CheckName = Literal["event_timer", "energy_counter", "counted_flops", "load_client", "clock_offset"]


class CheckLine(BaseModel):
    """One thing that the instrument was checked against, before it measured: docs/selfcheck.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    check: CheckName
    of: str = Field("", description="what of it, where there are several: an architecture, a clock")
    status: Literal["pass", "fail", "not_applicable"]
    measured: float | None = Field(None, description="by the harness; null if not applicable or the check broke off")
    expected: float | None = None
    tolerance: float | None = Field(None, ge=0, description="largest difference that passes, in `unit`")
    unit: str = ""
    reason: str = Field(description="what was compared, or why it was not")

    @classmethod
    def compared(
        cls, check: CheckName, measured: float, expected: float, tolerance: float, unit: str, reason: str, of: str = ""
    ) -> CheckLine:
        """`pass` if `measured` lies within `tolerance` of `expected` (all in `unit`); a number that is not finite fails."""
        if not (math.isfinite(measured) and math.isfinite(expected)):
            return cls.failed(check, f"{reason}: measured {measured}, expected {expected}", of)
        status: Literal["pass", "fail"] = "pass" if abs(measured - expected) <= tolerance else "fail"
        values = {"measured": measured, "expected": expected, "tolerance": tolerance, "unit": unit}
        return cls(check=check, of=of, status=status, reason=reason, **values)

    @classmethod
    def failed(cls, check: CheckName, reason: str, of: str = "") -> CheckLine:
        """A check that broke off."""
        return cls(check=check, of=of, status="fail", reason=reason)

    @classmethod
    def not_applicable(cls, check: CheckName, reason: str, of: str = "") -> CheckLine:
        """A check that does not apply here."""
        return cls(check=check, of=of, status="not_applicable", reason=reason)

    @property
    def name(self) -> str:
        """Such as `counted_flops gpt`."""
        return f"{self.check} {self.of}".strip()
