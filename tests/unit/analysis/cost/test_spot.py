"""Spot against on demand: by hand, against a simulation of the interruptions themselves, and what must hold of every run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.analysis.cost.interruptions import InterruptedRun, expected_time
from plumbline.analysis.cost.spot_forecast import break_even_rate, spot_cost
from plumbline.words.costs import spot_even_text

# 100 h of work, a checkpoint every 10 minutes that takes 3 s, 5 minutes until work goes on.
RUN = InterruptedRun(work_s=360_000.0, restart_s=300.0, every_s=600.0, checkpoint_s=3.0)


def test_by_hand() -> None:
    # On demand: 100 h and 600 checkpoints of 3 s = 100.5 h, at 30 USD/h.
    found = spot_cost(RUN, on_demand_per_hour=30.0, spot_per_hour=12.0, per_hour=0.1)
    assert found.on_demand == pytest.approx(30.0 * 100.5)
    # λ = 0.1/h: e^(λ·300 s) = 1.008368…; (e^(λ·603 s) − 1)/λ = 608.078… s; 600 times their product are 367,900.16 s.
    growth, stretch = math.exp(0.1 / 12), (math.exp(0.1 * 603 / 3600) - 1) * 36_000
    assert found.expected.held_s == pytest.approx(600 * growth * stretch)
    assert found.expected.held_s == pytest.approx(367_900.16, abs=0.01)
    assert found.expected.interruptions == pytest.approx(10.21944, abs=1e-5)
    assert found.spot == pytest.approx(1226.33387, abs=1e-4)
    assert found.saving == pytest.approx(0.5932558, abs=1e-7)
    # About half an interval is lost each time, and not quite 300 s of recovery, as some are interrupted too.
    assert found.expected.again_s / found.expected.interruptions == pytest.approx(301.5, rel=0.02)
    assert found.expected.restarting_s / found.expected.interruptions == pytest.approx(300.0, rel=0.01)


def test_a_penalty_with_the_work_done_again_in_it() -> None:
    found = expected_time(InterruptedRun(work_s=3600.0, restart_s=360.0), 0.5 / 3600)
    assert found.held_s == pytest.approx(3600.0 * math.exp(0.05))
    assert found.again_s == pytest.approx(0.0, abs=1e-9)


def test_without_interruptions_only_the_price_counts() -> None:
    assert expected_time(RUN, 0.0).held_s == 361_800.0
    found = spot_cost(RUN, 30.0, 12.0, 0.0)
    assert (found.expected.interruptions, found.saving) == (0.0, pytest.approx(0.6))


@pytest.mark.parametrize(
    ("run", "per_hour"),
    [
        (RUN, 0.5),
        (InterruptedRun(work_s=36_000.0, restart_s=120.0, every_s=1800.0, checkpoint_s=20.0), 2.0),
        (InterruptedRun(work_s=10_000.0, restart_s=60.0, every_s=1800.0, checkpoint_s=20.0), 1.0),  # what is left over has no checkpoint
        (InterruptedRun(work_s=20_000.0, restart_s=400.0), 3.0),
    ],
)
def test_against_a_simulation_of_the_interruptions(run: InterruptedRun, per_hour: float) -> None:
    rng, per_s = np.random.default_rng(20261121), per_hour / 3600
    simulated = np.array([simulate(run, per_s, rng) for _ in range(1500)])
    expected = expected_time(run, per_s)
    for column, value in enumerate((expected.held_s, expected.interruptions, expected.restarting_s)):
        mean, error = simulated[:, column].mean(), simulated[:, column].std(ddof=1) / math.sqrt(len(simulated))
        assert abs(mean - value) < 4 * error, f"column {column}: simulated {mean:.6g} ± {error:.2g}, expected {value:.6g}"


def simulate(run: InterruptedRun, per_s: float, rng: np.random.Generator) -> tuple[float, int, float]:
    """One run: seconds held, interruptions, seconds of recovery."""
    held, hits, recovering = 0.0, 0, 0.0
    if run.every_s is None:
        stretches = [run.work_s]
    else:
        full = math.floor(run.work_s / run.every_s)
        rest = run.work_s - full * run.every_s
        stretches = [run.every_s + run.checkpoint_s] * full + ([rest] if rest else [])
    for stretch in stretches:
        todo, recovery = stretch, 0.0
        while True:
            until = rng.exponential(1 / per_s)
            if until >= recovery + todo:
                held += recovery + todo
                recovering += recovery
                break
            held, hits, recovering = held + until, hits + 1, recovering + min(until, recovery)
            if run.every_s is None:  # nothing is done again: what was done before it is done
                todo -= max(0.0, until - recovery)
            recovery = run.restart_s
    return held, hits, recovering


def test_the_break_even_is_where_both_cost_the_same() -> None:
    found = break_even_rate(RUN, 30.0, 12.0)
    rate = found.per_hour
    assert rate is not None and "no longer cheaper" in spot_even_text(found)
    even = spot_cost(RUN, 30.0, 12.0, rate)
    assert even.spot == pytest.approx(even.on_demand, rel=1e-9)
    assert spot_cost(RUN, 30.0, 12.0, rate * 0.9).saving > 0 > spot_cost(RUN, 30.0, 12.0, rate * 1.1).saving


@pytest.mark.parametrize(
    ("run", "on_demand", "spot", "said"),
    [
        (RUN, 12.0, 12.0, "no cheaper than 12.00 USD/h on demand"),
        (RUN, 12.0, 13.0, "no cheaper"),
        (RUN, 12.0, 0.0, "costs nothing"),
        (InterruptedRun(work_s=10.0, restart_s=0.0), 12.0, 6.0, "no paid time"),
        (InterruptedRun(work_s=0.01, restart_s=0.0, every_s=1.0), 12.0, 6.0, "every second"),
    ],
)
def test_where_there_is_no_break_even_it_says_why(run: InterruptedRun, on_demand: float, spot: float, said: str) -> None:
    found = break_even_rate(run, on_demand, spot)
    assert found.per_hour is None and said in spot_even_text(found)


def test_a_run_that_never_ends_costs_without_end() -> None:
    found = spot_cost(InterruptedRun(work_s=1e6, restart_s=3600.0, every_s=36_000.0), 30.0, 3.0, 900.0)
    assert found.spot == math.inf and found.break_even is not None and found.break_even < 900.0


@pytest.mark.parametrize("wrong", [{"work_s": 0.0}, {"restart_s": -1.0}, {"every_s": 0.0}, {"checkpoint_s": math.nan}])
def test_seconds_that_cannot_be_are_an_error(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} is "):
        InterruptedRun(**{"work_s": 1.0, "restart_s": 1.0, "every_s": 1.0, **wrong})


@given(
    st.builds(
        InterruptedRun,
        work_s=st.floats(60, 1e6),
        restart_s=st.floats(0, 3600),
        every_s=st.none() | st.floats(10, 7200),
        checkpoint_s=st.floats(0, 60),
    ),
    st.floats(0.0001, 2.0),
    st.floats(1.01, 3.0),
)
def test_more_interruptions_never_make_a_run_shorter(run: InterruptedRun, per_hour: float, factor: float) -> None:
    calm, stormy = expected_time(run, per_hour / 3600), expected_time(run, per_hour * factor / 3600)
    quiet = expected_time(run, 0.0).held_s
    assert quiet <= calm.held_s * (1 + 1e-9) and calm.held_s <= stormy.held_s * (1 + 1e-9)
    parts = calm.work_s + calm.checkpoint_s + calm.restarting_s + calm.again_s
    assert parts == pytest.approx(calm.held_s, rel=1e-6)
