"""The requests of a load in the order in which they are due, and the moments at which to send them."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import scalar_view

GRID_S = 0.25e-3
"""Where requests are dense, those of one cell leave together at its end, because each sending system call costs as much as the client's rest. A
request is late by less than a cell; its latency and dispatch delay contain that."""
_DENSE = 2_000.0
"""Requests a second, within `_AROUND_S` before and after, that count as dense."""
_VERY_DENSE = 8_000.0
"""From here on cells are twice as long: a cheaper client is on time at rates at which short cells would delay it more."""
_AROUND_S = 5e-3


class ScheduleCursor:
    """The requests `mine` of a load in order of their moments, in seconds of the phase."""

    def __init__(self, load: PhaseLoad, mine: NDArray[np.int64]) -> None:
        timed = mine[load.after[mine] < 0]
        self._order: list[int] = timed[np.argsort(load.arrivals_s[timed], kind="stable")].tolist()
        self._moments: list[float] = load.arrivals_s[self._order].tolist()
        self._wakes: list[float] = wake_times(load.arrivals_s[self._order]).tolist()
        self._moments.append(math.inf)
        self._wakes.append(math.inf)
        self._position = 0
        self._followers: dict[int, list[int]] = {}
        for number in mine[load.after[mine] >= 0].tolist():
            self._followers.setdefault(int(load.after[number]), []).append(number)
        self._waits, self._duration_s = scalar_view(load.arrivals_s), load.duration_s
        self._soon: list[tuple[float, int]] = []
        self.timed = len(self._order)

    def moment(self) -> float:
        timed = self._moments[self._position]
        return min(timed, self._soon[0][0]) if self._soon else timed

    def wake(self) -> float:
        """When to see what is due next: at `moment()`, or less than a cell later where others can leave with it."""
        timed = self._wakes[self._position]
        return min(timed, self._soon[0][0]) if self._soon else timed

    def due(self, now: float, most: int) -> list[int]:
        if self._soon:
            numbers: list[int] = []
            while len(numbers) < most and self.moment() <= now:
                numbers.append(self.take())
            return numbers
        begin = self._position
        self._position = bisect_right(self._moments, now, begin, min(begin + most, self.timed))
        return self._order[begin : self._position]

    def take(self) -> int:
        """The next one; only while `moment()` is finite."""
        if self._soon and self._soon[0][0] < self._moments[self._position]:
            return heapq.heappop(self._soon)[1]
        number = self._order[self._position]
        self._position += 1
        return number

    def follow(self, number: int, ended_s: float) -> list[tuple[float, int]]:
        """Request `number` has ended: moments and numbers of its followers; those after the phase's end are never due."""
        followers = self._followers.get(number) if self._followers else None
        if followers is None:
            return []
        due = [(ended_s + self._waits[follower], follower) for follower in followers]
        due = [pair for pair in due if pair[0] < self._duration_s]
        for pair in due:
            heapq.heappush(self._soon, pair)
        return due

    def rest(self) -> Iterator[int]:
        """The requests that are due and not taken."""
        yield from self._order[self._position :]
        yield from (number for _, number in self._soon)
        self._position = len(self._order)
        self._soon.clear()
        self._followers.clear()


def wake_times(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """When each of these requests is to be sent, float64 [n]: `moments` (rising) or, where they are dense, the next corner of the grid."""
    around = np.searchsorted(moments, moments + _AROUND_S) - np.searchsorted(moments, moments - _AROUND_S)
    rate = around / (2 * _AROUND_S)
    cell = np.where(rate >= _VERY_DENSE, 2 * GRID_S, GRID_S)
    return np.asarray(np.where(rate >= _DENSE, np.ceil(moments / cell) * cell, moments))
