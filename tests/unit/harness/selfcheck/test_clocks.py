from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

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
    assert clocks.time_server_offset(lambda: (0, -0.003, 0.02)).status == "pass"
    line = clocks.time_server_offset(lambda: (0, -0.3, 0.5))
    assert (line.status, line.measured, line.expected) == ("fail", -0.3, 0.0)
    assert clocks.time_server_offset(lambda: (5, 0.0, 16.0)).status == "not_applicable"
    assert clocks.time_server_offset(lambda: None).status == "not_applicable"


def test_the_kernel_can_be_asked() -> None:
    known = clocks.adjtimex()
    assert known is None or (0 <= known[0] <= 5 and known[2] >= 0)


@pytest.mark.parametrize(
    ("ahead", "status", "offset"),
    [(0.0, "pass", 0.0), (-0.9, "pass", 0.0), (5.0, "fail", -5.0), (-5.0, "fail", 4.0), (0.8, "pass", -0.8)],
    ids=["as here", "truncated to the second", "ahead of us", "behind us", "less than a second ahead"],
)
def test_the_offset_from_the_result_stores_clock_is_judged_to_the_second(ahead: float, status: str, offset: float) -> None:
    here, written = 1_800_000_000.0, []
    line = clocks.store_clock_offset(lambda: written.append(1), lambda: datetime.fromtimestamp(here + ahead, timezone.utc), lambda: here)
    assert (line.check, line.of, line.status) == ("clock_offset", "result store", status)
    assert line.measured == pytest.approx(offset) and written == [1]


@pytest.mark.parametrize("says", [None, datetime.fromisoformat("2026-11-22")], ids=["nothing", "no time zone"])
def test_a_store_that_does_not_say_when_is_not_applicable(says: datetime | None) -> None:
    assert clocks.store_clock_offset(lambda: None, lambda: says).status == "not_applicable"


@pytest.mark.fault(
    "the result store refuses to say when it wrote an object", ends="not applicable", keeps="the specification and the trial"
)
def test_a_store_that_refuses_to_say_when_costs_only_its_line() -> None:
    def refuse() -> datetime:
        raise PermissionError("HEAD is forbidden")

    assert clocks.store_clock_offset(lambda: None, refuse).status == "not_applicable"


def test_what_the_write_raises_is_the_writers_concern() -> None:
    def full() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        clocks.store_clock_offset(full, lambda: None)
