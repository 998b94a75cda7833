"""The load of one phase: when each request is due, what it asks for, and which request it follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from plumbline.metrics import LoadPhase

Seconds = NDArray[np.float64]
Counts = NDArray[np.int32]


@dataclass(frozen=True)
class PhaseLoad:
    """The load of one phase: n requests, those that are timed in order of arrival.

    `arrivals_s` float64 [n], whole microseconds: seconds from the start of the phase, or, where `after` int32 [n] is not -1, from the end of
    the request with that (smaller) number: the next turn of a conversation, the next request of a closed loop's user.
    `input_tokens`, `output_tokens` int32 [n]; input tokens of a workload's own prompts are 0 until their tokens are counted.
    `closed`: a closed loop; it may end before its duration, when its requests are worked off.
    `probe`: which one of a search's loads, or of a growing context's, from 0; None: the phase's only one.
    `turn`: which turn of its conversation each request is, from 0, int32 [n], where conversations differ in length; None: see `turn_of`.
    """

    name: LoadPhase
    duration_s: float
    arrivals_s: Seconds
    input_tokens: Counts
    output_tokens: Counts
    after: Counts
    closed: bool = False
    probe: int | None = None
    turn: Counts | None = None

    @property
    def n(self) -> int:
        return len(self.arrivals_s)

    @property
    def chains(self) -> int:
        """Users of a closed loop, or conversations: request i follows request i - chains, and the first `chains` requests are timed."""
        return int(np.count_nonzero(self.after < 0))
