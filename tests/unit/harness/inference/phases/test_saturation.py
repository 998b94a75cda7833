"""The search finds the capacity of servers whose capacity is known, and says what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from tests.golden import Golden

from plumbline.declarations.workloads.load import Search
from plumbline.harness.inference.phases.search import Probe, Saturation, cannot_hold


def a_search(**changes: object) -> Search:
    data = {"goodput": "95%", "between": ["1/s", "64/s"], "probe": "20s", "tolerance": "5%", "at_most": 20} | changes
    return Search.model_validate_json(json.dumps(data))


def sharp(capacity: float, duration_s: float = 20.0) -> Callable[[float], Probe]:
    """A server that answers everything in time up to its capacity, and then falls behind for good."""

    def probe(rate: float) -> Probe:
        n = max(1, round(rate * duration_s))
        return Probe(rate, n, n) if rate <= capacity else Probe(rate, n, round(0.1 * n), hopeless=True)

    return probe


def searched(search: Search, probe: Callable[[float], Probe]) -> Saturation:
    state = Saturation(search)
    while (rate := state.next_rate()) is not None:
        state.learn(probe(rate))
    return state


@pytest.mark.parametrize("capacity", [1.0, 3.3, 17.0, 31.9, 63.0])
def test_it_brackets_the_capacity_within_the_tolerance(capacity: float) -> None:
    found = searched(a_search(), sharp(capacity))
    assert found.ending == "between"
    assert found.highest is not None
    assert found.failed is not None
    assert found.highest <= capacity < found.failed <= found.highest * 1.0501
    assert found.summary().startswith(f"{found.highest:.4g}/s held and {found.failed:.4g}/s ")


def test_the_ends_of_the_range_are_told_and_are_no_value() -> None:
    above, below = searched(a_search(), sharp(100)), searched(a_search(), sharp(0.5))
    assert (above.ending, above.highest, above.held) == ("upper_end", None, 64.0)
    assert "the upper end" in above.summary()
    assert (below.ending, below.highest, len(below.probes)) == ("lower_end", None, 1)
    assert below.summary().startswith("the lower end, ")


def test_it_ends_after_as_many_probes_as_declared_with_the_bracket_it_has(golden: Golden) -> None:
    found = searched(a_search(at_most=8, tolerance="1%"), sharp(17))
    assert len(found.probes) == 8
    assert found.highest is not None
    assert found.failed is not None
    assert found.highest <= 17 < found.failed
    golden("harness.search_left_a_wide_bracket", found.summary())


def test_used_up_before_anything_failed_is_no_value(golden: Golden) -> None:
    found = searched(a_search(at_most=3, between=["1/s", "1000/s"], probe="200s"), sharp(900, 200))
    assert found.highest is None
    golden("harness.search_ran_out_of_probes", found.summary())


def test_a_client_that_was_the_limit_ends_the_search_as_such(golden: Golden) -> None:
    def probe(rate: float) -> Probe:
        n = round(20 * rate)
        return Probe(rate, n, n) if rate < 16 else Probe(rate, n, 0, hopeless=True, client_limited="p99 of the dispatch delay is 200 ms")

    found = searched(a_search(), probe)
    assert (found.ending, found.highest, found.held) == ("client_limited", None, 8.0)
    golden("harness.search_limited_by_the_client", found.summary())
    assert [p.rate for p, _ in found.probes][-2:] == [16.0, 16.0], "it had a second chance"


def test_a_client_that_was_disturbed_once_goes_on() -> None:
    disturbed = iter([True])

    def probe(rate: float) -> Probe:
        found = sharp(17)(rate)
        if rate == 16.0 and next(disturbed, False):
            return Probe(rate, found.n, 0, hopeless=True, client_limited="p99 of the dispatch delay is 200 ms")
        return found

    found = searched(a_search(), probe)
    assert found.ending == "between"
    assert found.highest is not None
    assert 16 <= found.highest <= 17


def test_a_late_client_is_no_reason_to_end_what_held_all_the_same() -> None:
    """Latency counts from the schedule: a rate that held although the client was late did hold."""
    found = searched(a_search(between=["1/s", "4/s"]), lambda rate: Probe(rate, 200, 200, client_limited="late"))
    assert found.ending == "upper_end"


def test_an_open_rate_is_probed_once_more_and_judged_by_both() -> None:
    state = Saturation(a_search())
    rate = state.next_rate()
    assert rate == 1.0
    assert state.learn(Probe(rate, 100, 96)).holds is None, "96 of 100 can be 95 % or not"
    assert state.next_rate() == rate
    both = state.learn(Probe(rate, 300, 296))
    assert both.holds is True
    assert both.sure
    assert both.share == 0.98  # 392 of 400
    assert state.next_rate() == 2.0


def test_what_stays_open_is_decided_by_the_share_and_said_so() -> None:
    state = Saturation(a_search())
    state.learn(Probe(1.0, 100, 96))
    second = state.learn(Probe(1.0, 100, 95))
    assert (second.holds, second.sure) == (True, False)
    while (rate := state.next_rate()) is not None:
        state.learn(Probe(rate, 1000, 0, hopeless=True) if rate > 1 else Probe(rate, 1000, 1000))
    assert state.summary().endswith(": 1/s)")


def test_probes_too_short_to_prove_anything_are_not_repeated() -> None:
    state = Saturation(a_search(goodput="99%"))
    assert state.learn(Probe(1.0, 20, 20)).holds is True, "40 good requests of 40 do not prove 99 %: a repetition would be in vain"
    assert len(state.probes) == 1


def test_the_last_probe_decides_by_its_share() -> None:
    state = Saturation(a_search(at_most=3))
    for rate in (1.0, 2.0):
        state.learn(Probe(rate, 200, 200))
    assert state.learn(Probe(4.0, 100, 96)).holds is True


def test_hopeless_means_surely_below_even_if_the_rest_is_good() -> None:
    assert not cannot_hold(5, 100, 0.95), "exactly the share"
    assert not cannot_hold(8, 100, 0.95), "92 of 100 is not surely below 95 %"
    assert cannot_hold(15, 100, 0.95)
    assert cannot_hold(1, 1, 0.5) is False, "one request proves nothing"


def test_a_noisy_server_is_found_near_its_truth() -> None:
    """Goodput falls from 1 at half the capacity to 90 % at the capacity and on; the rate at 95 % is known."""
    rng = np.random.default_rng(3)

    def probe(rate: float) -> Probe:
        n = round(60 * rate)
        share = float(np.clip(1 - 0.1 * (rate / 20 - 0.5) / 0.5, 0, 1))
        return Probe(rate, n, int(rng.binomial(n, share)))

    found = [searched(a_search(at_most=30), probe).highest for _ in range(20)]
    # 95 % is met at rate 15; with some 900 requests a probe, one percent of goodput is one standard deviation.
    assert all(value is not None and 12 < value < 18.5 for value in found)
