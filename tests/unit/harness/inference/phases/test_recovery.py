"""The moment of recovery and the requests that a fault cost, from logs whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.golden import Golden

from plumbline.harness.inference.phases.fault import find_recovery, slice_log
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

RATE, N = 10, 100


def a_log(failed: range = range(0)) -> tuple[RequestLog, NDArray[np.bool_]]:
    """Ten seconds of ten requests a second, two tokens each, 50 ms from schedule to end; `failed` ones end 20 ms after they were due."""
    at = np.arange(N) / RATE
    load = PhaseLoad("fault", 10.0, at, np.full(N, 4, np.int32), np.full(N, 2, np.int32), np.full(N, -1, np.int32))
    log = RequestLog.of(load)
    log.began = 1000.0
    log.dispatched[:] = at + 0.001
    log.ended[:] = at + 0.05
    log.token_at[0::2], log.token_at[1::2] = at + 0.02, at + 0.05
    log.received[:] = 2
    for i in failed:
        log.fail(i, "unreachable", "connection refused")
        log.received[i], log.ended[i] = 0, at[i] + 0.02
        log.token_at[2 * i : 2 * i + 2] = np.nan
    return log, log.ok


def test_back_is_the_first_good_request_of_a_good_window() -> None:
    # Killed 20 ms after request 30 was due, while it was served; the server answers again from request 45 on.
    log, good = a_log(range(30, 45))
    found = find_recovery(log, good, 3.015, 3.015)
    assert found.back == pytest.approx(4.5)
    assert found.took_s == pytest.approx(4.5 - 3.015)
    assert found.lost == 15


def test_slow_answers_are_no_service_yet() -> None:
    log, good = a_log(range(30, 45))
    good = good.copy()
    good[45:60] = False  # answered, but later than the SLO allows
    found = find_recovery(log, good, 3.015, 3.015)
    assert found.back == pytest.approx(6.0)
    assert found.lost == 15, "late is not lost"


def test_one_good_request_among_bad_ones_is_no_recovery() -> None:
    log, good = a_log(range(30, 60))
    good = good.copy()
    good[40] = True
    assert find_recovery(log, good, 3.0, 3.0).back == pytest.approx(6.0)


def test_as_good_as_before_is_enough() -> None:
    """Every tenth request misses the SLO anyway: waiting for ten flawless ones would be waiting for luck."""
    log, good = a_log(range(30, 45))
    good = good.copy()
    good[5::10] = False
    found = find_recovery(log, good, 3.015, 3.015)
    assert found.back == pytest.approx(4.6), "request 45 is one of the tenth"


def test_nobody_noticed() -> None:
    log, good = a_log()
    found = find_recovery(log, good, 3.015, 4.025)
    assert (found.took_s, found.lost) == (0.0, 0)


def test_what_lasts_is_recovered_from_once_it_is_over() -> None:
    log, good = a_log()
    good = good.copy()
    good[35:50] = False  # an overload from 3 s to 4 s at first does no harm, and its queue lasts until 5 s
    found = find_recovery(log, good, 3.0, 4.0)
    assert found.back == pytest.approx(5.0)
    assert found.took_s == pytest.approx(1.0)


@pytest.mark.parametrize("failed", [range(30, 100), range(30, 95)])
def test_no_recovery_before_the_phase_ends(failed: range, golden: Golden) -> None:
    log, good = a_log(failed)
    found = find_recovery(log, good, 3.015, 3.015)
    assert found.took_s is None
    golden("harness.no_recovery_in_the_phase", found.why)
    assert found.lost == len(failed)


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_goes_on_missing_is_not_back_by_a_lucky_second(seed: int) -> None:
    """A third of the requests miss until the phase ends, which has seconds without a miss; the service before the fault missed none."""
    rng = np.random.default_rng(seed)
    log, good = a_log()
    good = good.copy()
    good[30:] = rng.random(N - 30) > 0.33
    good[52:64] = True  # 3.6 s before the end
    found = find_recovery(log, good, 3.015, 3.015)
    assert found.back is None and "not back by the end of the phase" in found.why


def test_no_service_before_the_fault_is_none_to_come_back_to(golden: Golden) -> None:
    log, good = a_log()
    good = good.copy()
    good[:30] = False
    found = find_recovery(log, good, 3.0, 3.0)
    assert found.took_s is None
    golden("harness.no_service_before_the_fault", found.why)


def test_a_request_that_failed_before_the_fault_was_not_lost_by_it() -> None:
    log, good = a_log(range(10, 12))
    assert find_recovery(log, good, 3.0, 3.0).lost == 0


def test_the_parts_of_a_log_are_its_requests_with_their_own_clock() -> None:
    log, _ = a_log(range(30, 45))
    log.due[99] = False
    before, after = slice_log(log, "fault", 0.0, 4.5), slice_log(log, "recovery", 4.5, 10.0)
    assert (before.n, after.n) == (45, 54)
    assert (before.load.name, after.load.name, after.load.duration_s) == ("fault", "recovery", 5.5)
    assert before.errors() == {"unreachable": 15}
    assert before.first_error() == "unreachable: connection refused"
    assert after.errors() == {}
    assert np.allclose(after.latencies("scheduled", "first_token"), 0.02)
    assert np.allclose(before.latencies("scheduled", "last_token")[:30], 0.05)
    assert np.isinf(before.latencies("scheduled", "last_token")[30:]).all()
    assert after.scheduled[0] == 0.0
    assert np.allclose(after.gaps(), 0.03)
