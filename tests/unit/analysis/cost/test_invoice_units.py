"""Units of vendors' invoices as hours."""

from __future__ import annotations

import pytest

from plumbline.analysis.cost.invoice_units import billed_time


@pytest.mark.parametrize(
    ("unit", "hours", "of_gpu"),
    [
        ("Hours", 1, False), ("hr", 1, False), ("10 Hours", 10, False), ("1 Hour", 1, False), ("Hour(s)", 1, False), ("Instance-Hours", 1, False),
        ("VM Hours", 1, False), ("Per Hour", 1, False), ("Seconds", 1 / 3600, False), ("Minutes", 1 / 60, False), ("days", 24, False),
        ("GPU-Hours", 1, True), ("GPU Per Hour", 1, True), ("gpu/hour", 1, True), ("GPU Seconds", 1 / 3600, True), ("100 gpu hours", 100, True),
    ],
)  # fmt: skip
def test_times_of_an_instance(unit: str, hours: float, of_gpu: bool) -> None:
    found = billed_time(unit)
    assert found is not None and (float(found.hours), found.of_gpu) == (pytest.approx(hours), of_gpu)


@pytest.mark.parametrize("unit", ["", "GB-Months", "gibibyte hour", "Units", "Requests", "OCPU Hours", "GB/Month", "10K"])
def test_other_units_are_no_time_of_one(unit: str) -> None:
    assert billed_time(unit) is None
