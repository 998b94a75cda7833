"""Numbers as people read them."""

from __future__ import annotations

import pytest

from plumbline.metrics import METRICS
from plumbline.metrics.formatting import format_quantity


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.01234, "s", "12.3 ms"),
        (62.0, "s", "62.0 s"),
        (150.0, "s", "2.50 min"),
        (4e-5, "s", "40.0 µs"),
        (-0.05, "s", "-50.0 ms"),
        (0.0, "s", "0 s"),
        (0.0123, "ratio", "1.23 %"),
        (12345.0, "tokens/s", "12,345 tokens/s"),
        (3.2e11, "FLOP/s", "320 GFLOP/s"),
        (61e6, "bytes", "61.0 MB"),
        (98.32, "USD", "98.32 USD"),
        (0.00123, "USD", "0.00123 USD"),
        (12.0, "count", "12"),
        (1.127, "1", "1.13"),
        (2.17, "nats", "2.17 nats"),
        (None, "s", "–"),
    ],
)
def test_a_number_has_three_digits_and_a_fitting_unit(value, unit, text):
    assert format_quantity(value, unit) == text


def test_every_unit_of_the_catalogue_can_be_read():
    assert all(format_quantity(1.5, m.unit) for m in METRICS.values())
