"""A quantity has a unit, is exact, and reads back as the value that was written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.declarations.base import Declared
from plumbline.metrics import units

WHOLE = st.integers(min_value=1, max_value=10**9)
DECIMALS = st.decimals(min_value="0.001", max_value=10**6, places=3, allow_nan=False)


class Everything(Declared):
    """One field of each quantity."""

    duration: units.Duration
    rate: units.Rate
    percent: units.Percent
    share: units.Share
    size: units.ByteSize
    price: units.HourlyPrice


def quantity(table: dict[str, float]) -> st.SearchStrategy[str]:
    return st.builds(lambda number, unit: f"{number}{unit}", st.one_of(WHOLE, DECIMALS), st.sampled_from(sorted(table)))


@given(
    duration=quantity(units.SECONDS),
    rate=quantity(units.PER_SECOND),
    percent=quantity(units.FRACTION),
    share=st.decimals(min_value="0.001", max_value=100, places=3).map(lambda d: f"{d}%"),
    size=quantity(units.BYTES),
    price=quantity(units.USD_PER_HOUR),
)
def test_what_is_written_reads_back_as_the_same_value(**written: str) -> None:
    declared = Everything(**written)  # type: ignore[arg-type] - quantities are text when they come in
    again = Everything.model_validate_json(declared.model_dump_json())
    assert again == declared
    assert again.model_dump_json() == declared.model_dump_json()


@pytest.mark.parametrize(
    ("text", "table", "value"),
    [
        ("900ms", units.SECONDS, 0.9),
        ("7ms", units.SECONDS, 0.007),
        ("1.5 h", units.SECONDS, 5400.0),
        ("95%", units.FRACTION, 0.95),
        ("99.9%", units.FRACTION, 0.999),
        ("29%", units.FRACTION, 0.29),
        ("6/min", units.PER_SECOND, 0.1),
        ("8GiB", units.BYTES, 8 * 2**30),
        ("1461 USD/month", units.USD_PER_HOUR, 2.0),
    ],
)
def test_values_are_the_nearest_floats(text: str, table: dict[str, float], value: float) -> None:
    assert units.parse(text, table, "a quantity", "1x") == value


@pytest.mark.parametrize(
    "value", [8, 8.0, True, None, "8", "s", "", "8 s s", "0x8s", "nans", "infs", "1e400s", "1e999999999s", "8S", ["8s"]]
)
def test_what_is_no_quantity(value: Any) -> None:
    with pytest.raises(ValueError, match="60s") as refusal:
        units.parse(value, units.SECONDS, "a duration", "60s")
    assert str(refusal.value).startswith(f'"{value}" ')


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("duration", "0s"),
        ("duration", "-1s"),
        ("rate", "0/s"),
        ("percent", "0%"),
        ("share", "100.1%"),
        ("size", "0B"),
        ("price", "-0.01 USD/h"),
    ],
)
def test_bounds(field: str, value: str) -> None:
    fine = {"duration": "1s", "rate": "1/s", "percent": "150%", "share": "100%", "size": "1B", "price": "0 USD/h"}
    Everything(**fine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected"):
        Everything(**{**fine, field: value})  # type: ignore[arg-type]
