from __future__ import annotations

import math

import numpy as np

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.upcoming import Upcoming


def upcoming(arrivals: list[float], after: list[int], *, duration_s: float = 10.0, mine: list[int] | None = None) -> Upcoming:
    one = np.ones(len(after), np.int32)
    load = PhaseLoad("steady", duration_s, np.array(arrivals), one, one, np.array(after, np.int32))
    return Upcoming(load, np.array(range(len(after)) if mine is None else mine, np.int64))


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
