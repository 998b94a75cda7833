"""Best, expected, worst and the tornado: cases computed by hand, and what must hold of every case."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.analysis.cost.scenarios import DEARER, CostModel, Range, cost_at, scenarios, tornado

# 36 USD/h at 10 requests a second: a million requests take 27.777… h of its time = 1,000 USD.
BY_HAND = CostModel(
    price=Range(27.0, 36.0, 45.0),
    rate=Range(8.0, 10.0, 12.5),
    utilisation=Range(0.4, 0.5, 0.8),
    failure_rate=Range(0.0, 0.2, 0.5),
    egress=Range(100.0, 200.0, 400.0),
    storage=Range.fixed(50.0),
    engineering=1000.0,
    volume=1_000_000.0,
)


def test_by_hand() -> None:
    found = scenarios(BY_HAND, 1_000_000.0)
    # Expected: 1,000 USD busy; a fifth of the work fails: 1,000 / 0.8 = 1,250; half of the time is paid for nothing: 2,500.
    assert found.expected.by_name() == pytest.approx(
        {"busy": 1000.0, "failed": 250.0, "idle": 1250.0, "egress": 200.0, "storage": 50.0, "engineering": 1000.0, "support": None}
    )
    assert found.expected.total == pytest.approx(3750.0)
    # Best: 27 · 1e6 / (3600 · 12.5) = 600 busy, nothing fails, 600 / 0.8 = 750.
    assert found.best.total == pytest.approx(750.0 + 100.0 + 50.0 + 1000.0)
    # Worst: 45 · 1e6 / (3600 · 8) = 1,562.50 busy; / 0.5 / 0.4 = 7,812.50.
    assert found.worst.total == pytest.approx(7812.5 + 400.0 + 50.0 + 1000.0)


def test_an_amount_is_its_share_of_the_month() -> None:
    assert scenarios(BY_HAND, 1000.0).expected.total == pytest.approx(3.75)


def test_the_tornado_by_hand() -> None:
    found = tornado(BY_HAND, 1_000_000.0)
    assert found.expected == pytest.approx(3750.0)
    # Of 3,750, 2,500 are instances and move; storage is known and has no bar.
    bars = {bar.driver: (bar.at_low, bar.at_high) for bar in found.bars}
    assert bars == {
        "utilisation": (pytest.approx(1250 + 2500 * 0.5 / 0.4), pytest.approx(1250 + 2500 * 0.5 / 0.8)),
        "failure_rate": (pytest.approx(1250 + 2500 * 0.8), pytest.approx(1250 + 2500 * 0.8 / 0.5)),
        "price": (pytest.approx(1250 + 2500 * 0.75), pytest.approx(1250 + 2500 * 1.25)),
        "rate": (pytest.approx(1250 + 2500 * 1.25), pytest.approx(1250 + 2500 * 0.8)),
        "egress": (pytest.approx(3650.0), pytest.approx(3950.0)),
    }
    assert [bar.driver for bar in found.bars] == ["failure_rate", "utilisation", "price", "rate", "egress"]


def test_what_is_not_known_is_not_zero_and_not_in_the_cost() -> None:
    bare = CostModel(price=Range.fixed(36.0), rate=Range.fixed(10.0))
    found = scenarios(bare, 1_000_000.0)
    assert found.best == found.expected == found.worst
    assert found.expected.total == pytest.approx(1000.0)
    assert (found.expected.egress, found.expected.storage, found.expected.engineering) == (None, None, None)
    assert tornado(bare, 1_000_000.0).bars == ()


def test_without_a_volume_what_is_paid_by_the_month_falls_on_no_outcome() -> None:
    model = CostModel(price=Range.fixed(36.0), rate=Range.fixed(10.0), egress=Range(1.0, 2.0, 3.0), engineering=1000.0)
    assert (cost_at(model, 1.0, model.at({})).egress, cost_at(model, 1.0, model.at({})).engineering) == (None, None)
    assert tornado(model, 1.0).bars == ()


def test_instances_that_always_run_are_paid_whatever_is_asked() -> None:
    model = CostModel(price=Range.fixed(2.0), rate=Range.fixed(10.0), volume=3600.0, always_on=1)
    parts = scenarios(model, 3600.0).expected
    assert parts.total == pytest.approx(2.0 * 730.5)
    assert parts.busy == pytest.approx(0.2)
    assert parts.idle == pytest.approx(2.0 * 730.5 - 0.2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rate": Range.fixed(0.0)}, "nothing is delivered"),
        ({"utilisation": Range(0.0, 0.5, 1.0)}, "expected above 0"),
        ({"utilisation": Range(0.5, 0.5, 1.5)}, "at most 1"),
        ({"failure_rate": Range(0.0, 0.5, 1.0)}, "expected below 1"),
        ({"volume": 0.0}, "a volume of 0"),
    ],
)
def test_what_cannot_be_is_an_error(more: dict[str, Range], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CostModel(**{"price": Range.fixed(1.0), "rate": Range.fixed(1.0), **more})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"2\.0, 1\.0, 3\.0"):
        Range(2.0, 1.0, 3.0)


def ranges(low: float, high: float) -> st.SearchStrategy[Range]:
    values = st.floats(low, high, allow_nan=False)
    return st.tuples(values, values, values).map(lambda three: Range(*sorted(three)))


def maybe(strategy: st.SearchStrategy[Range]) -> st.SearchStrategy[Range | None]:
    return st.none() | strategy


MODELS = st.builds(
    CostModel,
    price=ranges(0.01, 500),
    rate=ranges(0.01, 1e5),
    utilisation=maybe(ranges(0.05, 1.0)),
    failure_rate=maybe(ranges(0.0, 0.9)),
    egress=maybe(ranges(0.0, 1e4)),
    storage=maybe(ranges(0.0, 1e4)),
    engineering=st.none() | st.floats(0, 1e5),
    volume=st.none() | st.floats(1.0, 1e10),
    always_on=st.integers(0, 4),
)


@given(MODELS, st.floats(0.1, 1e6))
def test_every_bar_lies_between_best_and_worst(model: CostModel, amount: float) -> None:
    found, spread = scenarios(model, amount), tornado(model, amount)
    slack = 1e-9 * found.worst.total
    assert found.best.total <= found.expected.total + slack and found.expected.total <= found.worst.total + slack
    assert spread.expected == pytest.approx(found.expected.total)
    for bar in spread.bars:
        assert found.best.total - slack <= min(bar.at_low, bar.at_high) <= spread.expected + slack
        assert spread.expected - slack <= max(bar.at_low, bar.at_high) <= found.worst.total + slack
        dear, cheap = (bar.at_low, bar.at_high) if DEARER[bar.driver] == "low" else (bar.at_high, bar.at_low)
        assert cheap <= dear + slack
    widths = [bar.width for bar in spread.bars]
    assert widths == sorted(widths, reverse=True)


@given(MODELS, st.floats(0.1, 1e6), st.floats(0.1, 10))
def test_costs_grow_with_prices_in_proportion(model: CostModel, amount: float, factor: float) -> None:
    dearer = CostModel(
        **{
            **{name: getattr(model, name) for name in model.__dataclass_fields__},
            "price": model.price.times(factor),
            "egress": model.egress and model.egress.times(factor),
            "storage": model.storage and model.storage.times(factor),
            "engineering": None if model.engineering is None else model.engineering * factor,
        }
    )
    before, after = cost_at(model, amount, model.at({})).total, cost_at(dearer, amount, dearer.at({})).total
    assert math.isclose(after, before * factor, rel_tol=1e-9)
