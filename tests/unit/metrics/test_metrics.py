"""The catalogue holds together, and a name that is not in it gets its neighbours."""

from __future__ import annotations

from typing import get_args

import pytest

from plumbline import metrics
from plumbline.declarations.workloads.workload import parse_metric_value
from plumbline.metrics import METRICS, STATISTICS, Unit, metric


def test_each_row_is_complete() -> None:
    for known in METRICS.values():
        assert known.statistic in STATISTICS, known
        assert known.description, known
        assert (known.warn is None) == (known.page is None), known
        assert known.warn is None or known.page is None or 0 < known.warn <= known.page < 1, known
        assert known.direction != "informative" or known.warn is None, f"{known.name}: which way would it be worse?"


def test_a_name_is_of_one_group() -> None:
    """A second row of a name would replace the first one without a word."""
    rows = [name for group, table in metrics._TABLES.items() if group != "units" for name in table]
    assert sorted(rows) == sorted(METRICS)


def test_tail_percentiles_never_alarm_alone() -> None:
    assert not [m.name for m in METRICS.values() if m.statistic == "p99" and m.warn is not None]


@pytest.mark.parametrize("unit", get_args(Unit))
def test_a_criterion_can_be_written_in_every_unit(unit: Unit) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        parse_metric_value(unit, "1 furlong")
    example = str(raised.value).rpartition("such as ")[2].partition(" (")[0]
    assert parse_metric_value(unit, example) > 0


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="step_time"):
        metric("steptime")
