"""The search against servers of known capacity in virtual time (`tests/fakes/virtual_servers.py`)."""

from __future__ import annotations

import pytest
from tests.fakes.trials import CONFIG, a_trial
from tests.fakes.virtual_servers import Slots, Steps, VirtualServer, virtual_run, virtual_search, virtual_workload

from plumbline.declarations import InferenceWorkload, load
from plumbline.harness.inference.phases.saturation import Saturation
from plumbline.harness.inference.phases.search import search_offset

SEARCH = {"goodput": "99%", "between": ["4/s", "256/s"], "probe": "20s", "confirm": "2min", "tolerance": "2%", "at_most": 60}
BATCHING = Steps(0.006, 0.0002, 200, 256)
BATCHING_SLO = {"time_to_first_token": "5s", "inter_token_latency": "100ms"}
GAP_LIMITED = Steps(0.02, 0.0003, 400, 256)
GAP_LIMITED_SLO = {"time_to_first_token": "5s", "inter_token_latency": "80ms"}
GAP_LIMITED_RATE = 5.785
"""By `perf/capacity_truth.py`: 99 % of the requests of a load of hours keep a gap of 80 ms."""


def a_workload(limit_s: float, seed: int = 1, **changes: object) -> InferenceWorkload:
    return virtual_workload(SEARCH | changes, {"request_scheduled_latency": f"{limit_s}s"}, seed=seed)


def search_of(name: str) -> dict[str, object]:
    (search,) = (phase.search for phase in load(CONFIG).workloads[name].phases if phase.name == "sweep")  # type: ignore[union-attr]
    return search.model_dump(mode="json") | {"between": [f"{rate}/s" for rate in search.between]}


def batching(server: Steps, slo: dict[str, str], seeds: range, name: str = "chat-8b") -> list[Saturation]:
    search = search_of(name)
    return [virtual_search(server, virtual_workload(search, slo, server.tokens, seed), seed * 0.618 % 1) for seed in seeds]


def test_a_server_that_steps_all_sequences_together_is_found() -> None:
    """It fills for two minutes: a run of one found that its queue grows at 73 % of what it serves."""
    found = batching(BATCHING, BATCHING_SLO, range(1, 4))
    assert all(state.highest and abs(state.highest / BATCHING.capacity - 1) <= 0.03 for state in found), [s.summary() for s in found]
    assert any(state.certain for state in found), "and not only marked uncertain"


def test_a_run_below_the_capacity_of_a_server_that_fills_is_not_refused() -> None:
    workloads = [virtual_workload(search_of("chat-8b"), BATCHING_SLO, BATCHING.tokens, seed) for seed in range(1, 6)]
    for share in (0.73, 0.95):
        assert [virtual_run(BATCHING, each, share * BATCHING.capacity).holds for each in workloads].count(False) == 0


def test_a_server_limited_by_its_gaps_is_never_told_wrong() -> None:
    """It fills for ten minutes, longer than the search has: what it cannot know it marks."""
    found = batching(GAP_LIMITED, GAP_LIMITED_SLO, range(1, 4))
    assert all(not state.certain or abs((state.highest or 0.0) / GAP_LIMITED_RATE - 1) <= 0.03 for state in found), [
        s.summary() for s in found
    ]


def test_the_settings_of_the_first_run_find_a_small_batching_server() -> None:
    server = Steps(0.002, 0.0003, 16, 32)
    found = batching(server, {"time_to_first_token": "500ms", "inter_token_latency": "100ms"}, range(1, 9), "chat-tiny-cpu")
    assert all(state.highest and abs(state.highest / server.capacity - 1) <= 0.1 for state in found), [s.summary() for s in found]
    assert len({state.highest for state in found}) > 2, "repeats do not agree only because they meet the same rates"


def test_each_repeat_of_a_trial_begins_elsewhere_and_a_replay_where_its_trial_began() -> None:
    trial = a_trial("inference")
    again = trial.model_copy(update={"trial_id": f"{trial.trial_id}-replay", "replay_of": trial.trial_id})
    other = trial.model_copy(update={"trial_id": trial.trial_id.replace("r1", "r2")})
    assert search_offset(trial) == search_offset(again) != search_offset(other)
    assert 0 <= search_offset(trial) < 1


@pytest.mark.full
@pytest.mark.parametrize("server", [Slots(8, 0.1), Slots(64, 1.0), Slots(256, 5.0)], ids=lambda server: f"residence {server.mean_s:g} s")
def test_the_highest_sustained_rate_is_within_3_percent_of_the_capacity_in_20_of_20_runs(server: Slots) -> None:
    found = [virtual_search(server, a_workload(server.mean_s + 2.0, seed), seed / 21) for seed in range(1, 21)]
    ratios = [state.highest / server.capacity if state.highest else 0.0 for state in found]
    assert all(0.97 <= ratio <= 1.03 for ratio in ratios), (ratios, [state.summary() for state in found])


@pytest.mark.parametrize("capacity", [25, 67])
def test_two_seconds_find_what_a_slow_and_a_quick_core_serve_without_a_bias(capacity: int) -> None:
    """500 ms to the first token pass 25 % of overload for two seconds from an empty server."""
    search = search_of("chat-tiny-cpu")
    found = [virtual_search(Slots(1, 1 / capacity), a_workload(0.54, seed, **search), seed / 21) for seed in range(1, 21)]
    told = sorted(state.highest for state in found if state.highest)
    assert len(told) >= 18, [state.summary() for state in found]
    assert 0.92 <= told[len(told) // 2] / capacity <= 1.08


def test_the_standard_sets_chat_finds_what_a_node_serves_within_its_time() -> None:
    """Eight servers as on H100s."""
    server = Slots(512, 4.4)
    found = [virtual_search(server, a_workload(6.4, seed, **search_of("chat-8b")), seed / 41) for seed in (2, 13, 40)]
    assert all(state.highest and 0.95 <= state.highest / server.capacity <= 1.05 for state in found), [state.summary() for state in found]


def found_with(server: VirtualServer, seeds: range) -> list[Saturation]:
    return [virtual_search(server, a_workload(3.0, seed, confirm="60s", tolerance="3%"), seed / 6) for seed in seeds]


def test_a_server_with_half_a_percent_of_slow_requests_keeps_its_rate_at_a_target_of_99_percent() -> None:
    server = Slots(64, 1.0, slow=0.005, slow_s=60.0)
    found = found_with(server, range(1, 4))
    assert all(state.highest and 0.95 <= state.highest / server.capacity <= 1.05 for state in found), [state.summary() for state in found]


def test_a_server_that_misses_the_target_has_no_rate() -> None:
    (found,) = found_with(Slots(64, 1.0, slow=0.03, slow_s=60.0), range(1, 2))
    assert (found.highest, found.ending) == (None, "lower_end"), found.summary()


def test_a_probe_that_was_disturbed_does_not_halve_the_rate() -> None:
    server = Slots(8, 0.1)
    workload = a_workload(2.1, confirm="60s", tolerance="3%")
    found = virtual_search(server, workload, late_s=lambda number, planned: 2.1 if number == 1 else 0.0)
    assert found.probes[1][1].holds is False
    assert found.highest and found.highest > 0.95 * server.capacity, found.summary()


def test_a_cache_that_warms_while_the_search_runs_is_not_taken_for_the_servers_limit() -> None:
    server = Slots(64, 1.0, "log-normal", warms=(1.0, 2000.0))
    found = [virtual_search(server, a_workload(12.0, seed, **search_of("chat-8b")), seed / 4) for seed in range(1, 4)]
    assert all(not state.certain or (state.highest and state.highest > 0.95 * server.capacity) for state in found), [
        state.summary() for state in found
    ]
