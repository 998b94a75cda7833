from __future__ import annotations

import time

from plumbline.harness.selfcheck import clocks
from plumbline.harness.selfcheck.clocks import WallClock


def test_the_timer_agrees_with_the_hardware_clock() -> None:
    (line,) = clocks.event_timer()
    assert (line.status, line.of, line.unit) == ("pass", "cpu", "s")
    assert line.measured is not None and line.expected is not None and line.expected >= 0.2


def test_a_timer_that_runs_one_percent_fast_fails() -> None:
    (line,) = clocks.event_timer(lambda: int(time.monotonic_ns() * 1.01))
    assert line.status == "fail"


def test_a_wall_clock_that_was_set_meanwhile_fails() -> None:
    assert WallClock().line().status == "pass"
    ahead = iter((0.0, 0.5))
    assert WallClock(lambda: time.time() + next(ahead)).line().status == "fail"


def test_the_offset_from_the_time_server_is_judged_where_there_is_one() -> None:
    assert clocks.synchronised(lambda: (0, -0.003, 0.02)).status == "pass"
    line = clocks.synchronised(lambda: (0, -0.3, 0.5))
    assert (line.status, line.measured, line.expected) == ("fail", -0.3, 0.0)
    assert clocks.synchronised(lambda: (5, 0.0, 16.0)).status == "not_applicable"
    assert clocks.synchronised(lambda: None).status == "not_applicable"


def test_the_kernel_can_be_asked() -> None:
    known = clocks.adjtimex()
    assert known is None or (0 <= known[0] <= 5 and known[2] >= 0)
