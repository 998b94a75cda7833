from __future__ import annotations

import math

import numpy as np
import pytest

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.schedule_cursor import GRID_S, ScheduleCursor, wake_times


def upcoming(arrivals: list[float], after: list[int], *, duration_s: float = 10.0, mine: list[int] | None = None) -> ScheduleCursor:
    one = np.ones(len(after), np.int32)
    load = PhaseLoad("steady", duration_s, np.array(arrivals), one, one, np.array(after, np.int32))
    return ScheduleCursor(load, np.array(range(len(after)) if mine is None else mine, np.int64))


def test_timed_requests_come_in_order_of_their_moments() -> None:
    due = upcoming([2.0, 1.0, 1.0], [-1, -1, -1])
    assert due.timed == 3
    assert [(due.moment(), due.take()) for _ in range(3)] == [(1.0, 1), (1.0, 2), (2.0, 0)]
    assert due.moment() == math.inf


def test_followers_come_among_the_timed_ones() -> None:
    due = upcoming([0.0, 0.5, 1.0, 0.0], [-1, 0, -1, 0])
    assert due.timed == 2
    assert due.take() == 0
    assert due.follow(0, 0.7) == [(1.2, 1), (0.7, 3)]
    assert [(due.moment(), due.take()) for _ in range(3)] == [(0.7, 3), (1.0, 2), (1.2, 1)]
    assert due.follow(3, 0.8) == []


def test_what_would_come_after_the_phase_is_not_due() -> None:
    due = upcoming([0.0, 5.0], [-1, 0])
    due.take()
    assert due.follow(0, 5.0) == []
    assert due.moment() == math.inf


def test_only_the_requests_of_one_process() -> None:
    due = upcoming([0.0, 0.0, 1.0, 1.0], [-1, -1, 0, 1], mine=[1, 3])
    assert due.timed == 1
    assert due.take() == 1
    assert due.follow(1, 0.1) == [(1.1, 3)]


def test_nothing_comes_after_the_rest() -> None:
    due = upcoming([0.0, 1.0, 0.0], [-1, -1, 0])
    due.take()
    due.follow(0, 0.5)
    assert sorted(due.rest()) == [1, 2]
    assert due.moment() == math.inf
    assert due.follow(1, 0.6) == []


def test_requests_far_apart_are_sent_each_at_its_own_moment() -> None:
    moments = np.arange(20) / 1_500 + 1e-5
    assert np.array_equal(wake_times(moments), moments)


@pytest.mark.parametrize(("rate", "cell"), [(4_000, GRID_S), (7_000, GRID_S), (10_000, 2 * GRID_S), (20_000, 2 * GRID_S)])
def test_dense_requests_leave_together_and_never_early_nor_a_cell_late(rate: int, cell: float) -> None:
    moments = (np.arange(rate // 10) + np.random.default_rng(1).uniform(0.0, 1.0, rate // 10)) / rate
    inside = slice(rate // 100, -rate // 100)  # at the ends half of what is around is missing
    sent = wake_times(moments)
    late = (sent - moments)[inside]
    assert late.min() > -1e-9 and late.max() < cell + 1e-9
    assert late.max() > 0.9 * cell
    assert len(np.unique(np.round(sent[inside] / cell))) <= 0.1 / cell


def test_the_grid_begins_and_ends_with_the_burst() -> None:
    burst = 1.0 + np.arange(100) * 1e-4 + 1e-5
    moments = np.concatenate([[0.50001], burst, [1.50001]])
    sent = wake_times(moments)
    assert sent[0] == moments[0] and sent[-1] == moments[-1]
    assert (sent[40:60] > moments[40:60]).all()


def test_a_dense_request_waits_for_its_cell_and_a_follower_does_not() -> None:
    moments = (1.0 + np.arange(100) * 1e-4 + 1e-5).tolist()
    due = upcoming([*moments, 0.0], [*[-1] * 100, 0])
    assert due.wake() == wake_times(np.array(moments))[0] > due.moment()
    due.take()
    due.follow(0, 1.00001)
    assert due.wake() == due.moment() == 1.00001


def test_what_is_due_comes_together_with_followers_in_their_places() -> None:
    due = upcoming([0.0, 1.0, 1.0, 2.0, 0.5], [-1, -1, -1, -1, 0])
    assert due.due(0.5, 9) == [0]
    due.follow(0, 0.6)
    assert due.due(1.5, 2) == [1, 2] and due.due(1.5, 9) == [4]
    assert due.due(1.9, 9) == [] and due.due(2.0, 9) == [3] and due.due(9.0, 9) == []


def test_no_more_are_due_at_once_than_were_asked_for() -> None:
    due = upcoming([0.0] * 5, [-1] * 5)
    assert [due.due(0.0, 2) for _ in range(4)] == [[0, 1], [2, 3], [4], []]
    assert due.moment() == math.inf
