"""Build check lines from a measured and an expected value; the architectures that are checked."""

from __future__ import annotations

import math

from plumbline.results import CheckLine, CheckName


def compare(check: CheckName, measured: float, expected: float, tolerance: float, unit: str, reason: str, of: str = "") -> CheckLine:
    """`pass` if `measured` lies within `tolerance` of `expected` (all in `unit`); a number that is none fails."""
    if not (math.isfinite(measured) and math.isfinite(expected)):
        return check_failed(check, f"{reason}: measured {measured}, expected {expected}", of)
    passes = abs(measured - expected) <= tolerance
    return CheckLine(
        check=check,
        of=of,
        status="pass" if passes else "fail",
        measured=measured,
        expected=expected,
        tolerance=tolerance,
        unit=unit,
        reason=reason,
    )


def check_failed(check: CheckName, reason: str, of: str = "") -> CheckLine:
    """A check that broke off: an instrument that cannot be checked is not one that was."""
    return CheckLine(check=check, of=of, status="fail", reason=reason)


def not_applicable(check: CheckName, reason: str, of: str = "") -> CheckLine:
    """There is nothing to compare here, for a reason that is no fault."""
    return CheckLine(check=check, of=of, status="not_applicable", reason=reason)


ARCHITECTURES = ("gpt", "llama", "bert", "vit")
