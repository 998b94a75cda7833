"""The search finds the capacity of servers whose capacity is known, and says what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.golden import Golden

from plumbline.declarations.workloads.load import Search
from plumbline.harness.inference.phases.growth import Flow, Growth
from plumbline.harness.inference.phases.saturation import Planned, RateProbe, Saturation, cannot_hold
from plumbline.harness.inference.phases.search import search_judgement

FLAT, GROWING = Growth(0.0, 0.0), Growth(0.1, 4.0)


def a_search(**changes: object) -> Search:
    data = {"goodput": "95%", "between": ["1/s", "64/s"], "probe": "20s", "tolerance": "5%", "at_most": 30} | changes
    return Search.model_validate_json(json.dumps(data))


def shows(planned: Planned, good: int | None = None, n: int | None = None, **more: object) -> RateProbe:
    """All good requests of the least that is planned: a run that decided its rate as early as it could."""
    n = round(planned.rate * planned.at_least_s) if n is None else n
    return RateProbe(planned.rate, n, n if good is None else good, planned.at_least_s, planned.confirming, **more)  # type: ignore[arg-type]


def sharp(capacity: float) -> Callable[[Planned], RateProbe]:
    """A server that answers everything in time up to its capacity, and then falls behind for good."""
    return lambda planned: shows(planned) if planned.rate <= capacity else shows(planned, 0, hopeless=True)


def searched(search: Search, probe: Callable[[Planned], RateProbe], offset: float = 0.0) -> Saturation:
    """A search whose runs are extended, a probe's seconds at a time, until their rate is decided."""
    state = Saturation(search, offset)
    while (planned := state.next_probe()) is not None:
        found = probe(planned)
        while not found.hopeless and not state.decides(found) and found.seconds + search.probe <= planned.seconds * (1 + 1e-9):
            found = probe(replace(planned, at_least_s=found.seconds + search.probe))
        state.learn(found)
    return state


@pytest.mark.parametrize("capacity", [1.0, 3.3, 17.0, 31.9, 63.0])
def test_it_brackets_the_capacity_within_the_tolerance(capacity: float) -> None:
    found = searched(a_search(at_most=40), sharp(capacity))
    assert found.ending == "between"
    assert found.highest is not None
    assert found.held is not None
    assert found.failed is not None
    # At 1/s a probe of 20 s has no rates that are closer than 5 %.
    assert found.held <= capacity < found.failed <= found.held * (1.0501 if capacity > 1 else 1.11)
    assert found.held < found.highest < found.failed, "the middle, and not the end that happened to hold"
    assert found.certain
    assert found.summary().startswith(f"{found.held:.4g}/s held and {found.failed:.4g}/s ")
    assert [probe.rate for probe, _ in found.probes].count(found.failed) >= 2, "the failure that the result rests on was looked at twice"


def test_the_ends_of_the_range_are_told_and_are_no_value() -> None:
    above, below = searched(a_search(), sharp(100)), searched(a_search(), sharp(0.5))
    assert (above.ending, above.highest) == ("upper_end", None)
    assert "the upper end" in above.summary()
    assert (below.ending, below.highest, len(below.probes)) == ("lower_end", None, 2)
    assert below.summary().startswith("the lower end, ")


def test_it_ends_after_the_seconds_declared_with_the_bracket_it_has(golden: Golden) -> None:
    found = searched(a_search(at_most=10, tolerance="1%"), sharp(17))
    assert found.spent_s <= 200
    assert found.highest is not None
    assert found.failed is not None
    assert found.held is not None and found.held <= 17 < found.failed
    assert not found.certain
    golden("harness.search_left_a_wide_bracket", found.summary())


def test_used_up_before_anything_failed_is_no_value(golden: Golden) -> None:
    found = searched(a_search(at_most=3, between=["1/s", "1000/s"], probe="200s"), sharp(900))
    assert found.highest is None
    golden("harness.search_ran_out_of_probes", found.summary())


def test_a_client_that_was_the_limit_ends_the_search_as_such(golden: Golden) -> None:
    def probe(planned: Planned) -> RateProbe:
        return (
            shows(planned) if planned.rate <= 16 else shows(planned, 0, hopeless=True, client_limited="p99 of the dispatch delay is 200 ms")
        )

    found = searched(a_search(), probe)
    assert (found.ending, found.highest, found.held) == ("client_limited", None, None)
    golden("harness.search_limited_by_the_client", found.summary())
    assert [p.rate for p, _ in found.probes][-2:] == [64.0, 64.0], "it had a second chance"


def test_a_client_that_was_disturbed_once_goes_on() -> None:
    disturbed = iter([True])

    def probe(planned: Planned) -> RateProbe:
        if planned.rate == 64.0 and next(disturbed, False):
            return shows(planned, 0, hopeless=True, client_limited="p99 of the dispatch delay is 200 ms")
        return sharp(17)(planned)

    found = searched(a_search(), probe)
    assert found.ending == "between"
    assert found.held is not None
    assert 16 <= found.held <= 17


def test_a_late_client_is_no_reason_to_end_what_held_all_the_same() -> None:
    """Latency counts from the schedule: a rate that held although the client was late did hold."""
    found = searched(a_search(between=["1/s", "4/s"]), lambda planned: shows(planned, 200, 200, client_limited="late"))
    assert found.ending == "upper_end"


def test_a_machine_that_was_disturbed_once_keeps_its_rate() -> None:
    """One second of another process quartered the rate: the failure at 4/s is looked at again before it counts."""
    disturbed = iter([True])

    def probe(planned: Planned) -> RateProbe:
        return shows(planned, 0, hopeless=True) if planned.rate == 4.0 and next(disturbed, False) else sharp(17)(planned)

    found = searched(a_search(at_most=40), probe)
    assert found.held is not None
    assert 16 <= found.held <= 17


def test_a_quick_probe_alone_does_not_hold_a_rate() -> None:
    """A quick probe from an empty server passes 10 % of overload: only a confirming run shows that the queue grows."""

    def probe(planned: Planned) -> RateProbe:
        if planned.rate <= 30:
            return shows(planned, growth=FLAT)
        if planned.rate > 33 and not planned.confirming:
            return shows(planned, 0, hopeless=True)
        return shows(planned, growth=Growth(planned.rate / 30 - 1, 5.0) if planned.confirming else FLAT)

    found = searched(a_search(confirm="60s", at_most=60), probe)
    assert found.ending == "between"
    assert found.held is not None
    assert 30 / 1.05 < found.held <= 30 * 1.026, "half of the tolerance is within it"
    last = [p for p, verdict in found.probes if p.rate == found.held and verdict.holds]
    assert all(p.confirming and p.seconds == 60 for p in last)


def test_a_confirming_run_lasts_five_residences() -> None:
    found = searched(
        a_search(confirm="60s", at_most=100),
        lambda planned: shows(planned, 0, hopeless=True) if planned.rate > 17 else shows(planned, residence_s=21.0),
    )
    assert {p.seconds for p, verdict in found.probes if p.confirming and verdict.holds} == {120.0}, "105 s in whole probes of 20 s"


def test_an_open_lower_end_is_no_failure() -> None:
    """1 bad request of 80 at a target of 99 %: 98.75 %, and the truth may be 99.9 %. A higher rate shows more requests in the same time."""
    search = a_search(goodput="99%", between=["4/s", "128/s"], confirm="60s", at_most=60)

    def probe(planned: Planned) -> RateProbe:
        found = sharp(50)(planned)
        return shows(planned, found.n - 1) if planned.rate == 4.0 else found

    found = searched(search, probe)
    assert found.probes[0][1].holds is None
    assert found.held is not None
    assert 47 < found.held <= 50


def test_an_open_rate_is_left_and_looked_at_again_and_judged_by_all_its_runs() -> None:
    """96 of 100 can be 95 % or not. Above it all fails, so the search comes back to it."""
    state = Saturation(a_search(probe="100s", at_most=20))
    while (planned := state.next_probe()) is not None:
        first = not any(probe.rate == planned.rate and probe.confirming for probe, _ in state.probes)
        state.learn(shows(planned, 0, hopeless=True) if planned.rate > 1 else shows(planned, 96 if first else 99))
    runs = [verdict for probe, verdict in state.probes if probe.rate == 1.0 and probe.confirming]
    assert [(v.holds, v.sure, v.share) for v in runs] == [(None, False, 0.96), (None, False, 0.975), (True, True, 0.98)]
    assert (state.held, state.ending) == (1.0, "between")


def test_what_stays_open_is_decided_by_the_share_and_said_so() -> None:
    def probe(planned: Planned) -> RateProbe:
        n = round(planned.rate * planned.at_least_s)
        return shows(planned, 0, hopeless=True) if planned.rate > 1 else shows(planned, round(0.95 * n + 0.5))

    found = searched(a_search(probe="100s", at_most=8), probe)
    assert (found.held, found.probes[-1][1].sure, found.certain) == (1.0, False, False)
    assert found.summary().endswith(": 1/s)")


def test_growth_fails_a_rate_that_every_request_survived() -> None:
    state = Saturation(a_search(between=["4/s", "64/s"]))
    verdict = state.learn(shows(state.confirming_run(4.0), growth=GROWING))
    assert (verdict.holds, verdict.sure, verdict.share) == (False, True, 1.0)


@pytest.mark.parametrize(("growth", "holds"), [(Growth(0.02, 9.0), True), (Growth(0.03, 1.0), None), (Growth(0.03, 2.5), False)])
def test_growth_within_half_of_the_tolerance_is_inside_the_bracket(growth: Growth, holds: bool | None) -> None:
    state = Saturation(a_search(between=["8/s", "64/s"]))
    assert state.learn(shows(state.confirming_run(8.0), growth=growth)).holds is holds


def test_a_server_that_still_fills_is_neither_held_nor_refused_and_runs_on() -> None:
    """The wait does not grow and the backlog does: neither the share nor the latency are those that it ends at."""
    state = Saturation(a_search(between=["8/s", "64/s"], confirm="60s", at_most=60))
    planned = state.confirming_run(8.0)
    filling = shows(planned, growth=FLAT, flow=Flow(7.5, 0.02, 0.07, 0.004))
    assert planned.seconds > planned.at_least_s
    assert not state.decides(filling)
    assert state.learn(filling).holds is None
    assert state.decides(shows(planned, growth=FLAT, flow=Flow(8.0, 0.02, 0.001, 0.004)))


def test_what_an_overloaded_server_works_off_bounds_the_rate_from_above() -> None:
    capacity = 20.0

    def probe(planned: Planned) -> RateProbe:
        over = planned.rate / capacity - 1
        served = min(planned.rate, capacity)
        return shows(planned, growth=Growth(max(0.0, over), 5.0 if over > 0 else 0.0), flow=Flow(served, 0.05, max(0.0, over), 0.002))

    found = searched(a_search(confirm="60s", at_most=60), probe)
    assert found.ceiling is not None and found.ceiling.low < capacity < found.ceiling.high
    assert found.certain and found.highest == pytest.approx(capacity, rel=0.03)
    assert found.bracket is not None and found.bracket[0] <= capacity <= found.bracket[1] <= found.bracket[0] * 1.0501
    assert f"worked off {found.ceiling.rate:.4g}/s" in found.summary()


def test_requests_that_miss_together_prove_less() -> None:
    state = Saturation(a_search(between=["8/s", "64/s"], confirm="60s", at_most=60))
    planned = state.confirming_run(8.0)
    assert state.decides(shows(planned, 440)) and not state.decides(shows(planned, 440, dependence=20.0))


def test_repeats_begin_at_different_rates() -> None:
    first = [Saturation(a_search(), offset).next_probe() for offset in (0.0, 0.3, 0.9)]
    assert len({planned.rate for planned in first if planned is not None}) == 3
    found = {searched(a_search(at_most=40), sharp(17), offset).highest for offset in (0.1, 0.1, 0.35, 0.6, 0.85)}
    assert len(found) > 1, "equal trials agree, repeats differ by what they met"


def test_probes_too_short_to_prove_anything_are_not_repeated() -> None:
    state = Saturation(a_search(goodput="99%", at_most=10))
    planned = state.next_probe()
    assert planned is not None
    assert state.learn(shows(planned)).holds is True, "200 good requests of 200 do not prove 99 %: repetitions would be in vain"
    assert len(state.probes) == 1


def test_hopeless_means_surely_below_even_if_the_rest_is_good() -> None:
    assert not cannot_hold(5, 100, 0.95), "exactly the share"
    assert not cannot_hold(8, 100, 0.95), "92 of 100 is not surely below 95 %"
    assert cannot_hold(15, 100, 0.95)
    assert cannot_hold(1, 1, 0.5) is False, "one request proves nothing"


def test_a_noisy_server_is_found_near_its_truth() -> None:
    """Goodput falls from 1 at half the capacity to 90 % at the capacity and on; the rate at 95 % is known."""
    rng = np.random.default_rng(3)

    def probe(planned: Planned) -> RateProbe:
        share = float(np.clip(1 - 0.1 * (planned.rate / 20 - 0.5) / 0.5, 0, 1))
        return shows(planned, int(rng.binomial(round(planned.rate * planned.at_least_s), share)))

    found = [searched(a_search(probe="60s", at_most=30), probe).held for _ in range(20)]
    # 95 % is met at rate 15; with some 900 requests a probe, one percent of goodput is one standard deviation.
    assert all(value is not None and 12 < value < 18.5 for value in found), found


def test_a_rate_known_less_well_than_the_tolerance_degrades_the_trial() -> None:
    known = searched(a_search(at_most=40), sharp(17))
    wide = searched(a_search(at_most=10, tolerance="1%"), sharp(17))

    def by_the_share(planned: Planned) -> RateProbe:
        n = round(planned.rate * planned.at_least_s)
        return shows(planned, 0, hopeless=True) if planned.rate > 1 else shows(planned, round(0.95 * n + 0.5))

    unsure = searched(a_search(probe="100s", at_most=8), by_the_share)
    outside = searched(a_search(), sharp(100))
    judged = [search_judgement(state, "sweep") for state in (known, wide, unsure, outside)]
    assert [each and (each.level, each.reason.code) for each in judged] == [
        None,
        ("degraded", "rate_uncertain"),
        ("degraded", "rate_uncertain"),
        ("degraded", "search_open"),
    ]
