"""The search against servers of known capacity in virtual time: a queue of c servers with a fixed service time, simulated event by event.

Everything but the clock is the harness's own: the arrivals, the request log, what a probe shows, and every decision of the search."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from tests.fakes.trials import CONFIG, a_trial

from plumbline.declarations import InferenceWorkload, load
from plumbline.harness.inference.load.schedule import probe_load
from plumbline.harness.inference.phases.saturation import Planned, Saturation, cannot_hold
from plumbline.harness.inference.phases.search import observe
from plumbline.loadclient.request_log import RequestLog


@dataclass(frozen=True)
class Queue:
    """`servers` answer one request each at a time, in `residence_s`; a share `slow` of the requests takes `slow_s` more, beside the queue."""

    servers: int
    residence_s: float
    slow: float = 0.0
    slow_s: float = 0.0

    @property
    def capacity(self) -> float:
        return self.servers / self.residence_s

    def ends(self, arrivals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        free = [0.0] * self.servers
        ends = np.empty(len(arrivals))
        for i, at in enumerate(arrivals.tolist()):
            ends[i] = max(at, free[0]) + self.residence_s
            heapq.heapreplace(free, ends[i])
        return ends + np.where(rng.random(len(arrivals)) < self.slow, self.slow_s, 0.0)


SEARCH = {"goodput": "99%", "between": ["4/s", "256/s"], "probe": "20s", "confirm": "2min", "tolerance": "2%", "at_most": 60}


def a_workload(limit_s: float, seed: int = 1, **changes: object) -> InferenceWorkload:
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    data["requests"] |= {"seed": seed, "output_tokens": {"constant": 1}}
    data["slo"] = {"request_scheduled_latency": f"{limit_s}s"}
    data["phases"] = [*data["phases"][:2], {"name": "sweep", "search": SEARCH | changes}]
    return InferenceWorkload.model_validate_json(json.dumps(data))


def searched(
    queue: Queue, workload: InferenceWorkload, disturbed: Callable[[int, Planned], bool] = lambda number, planned: False
) -> Saturation:
    """A search in virtual time. `disturbed`: whether everything of a probe is late."""
    spec, limit_s = workload.phases[2], workload.slo.request_scheduled_latency
    assert spec.name == "sweep"
    assert limit_s is not None
    state, rng = Saturation(spec.search), np.random.default_rng(workload.requests.seed)
    while (planned := state.next_probe()) is not None:
        number = len(state.probes)
        log = RequestLog.of(probe_load(workload, 2, number, planned.rate, planned.seconds))
        assert log.n == round(planned.rate * planned.seconds), "a probe offers its rate exactly"
        log.dispatched[:] = log.scheduled
        log.token_at[:] = log.ended[:] = queue.ends(log.scheduled, rng) + (limit_s if disturbed(number, planned) else 0.0)
        log.received[:] = 1
        lost = np.sort(log.scheduled[log.ended - log.scheduled > limit_s] + limit_s)
        beyond = next((at for k, at in enumerate(lost, start=1) if cannot_hold(k, log.n, spec.search.goodput)), None)
        state.learn(observe(planned, log, workload.slo, beyond, None))
    assert state.spent_s <= spec.search.budget_s * (1 + 1e-9)
    return state


GOLDEN = [Queue(8, 0.1), Queue(64, 1.0), Queue(256, 5.0)]


@pytest.mark.full
@pytest.mark.parametrize("queue", GOLDEN, ids=lambda queue: f"residence {queue.residence_s:g} s")
def test_the_highest_sustained_rate_is_within_3_percent_of_the_capacity_in_20_of_20_runs(queue: Queue) -> None:
    found = [searched(queue, a_workload(queue.residence_s + 2.0, seed)) for seed in range(1, 21)]
    ratios = [state.highest / queue.capacity if state.highest else 0.0 for state in found]
    assert all(0.97 <= ratio <= 1.03 for ratio in ratios), (ratios, [state.summary() for state in found])


def search_of(name: str) -> dict[str, object]:
    (search,) = (phase.search for phase in load(CONFIG).workloads[name].phases if phase.name == "sweep")  # type: ignore[union-attr]
    return search.model_dump(mode="json") | {"between": [f"{rate}/s" for rate in search.between]}


@pytest.mark.parametrize("capacity", [25, 67])
def test_two_seconds_find_what_a_slow_and_a_quick_core_serve_without_a_bias(capacity: int) -> None:
    """500 ms to the first token pass 25 % of overload for two seconds from an empty server."""
    found = [searched(Queue(1, 1 / capacity), a_workload(0.54, seed, **search_of("chat-tiny-cpu"))).highest or 0.0 for seed in range(1, 31)]
    assert 0.92 <= float(np.median(found)) / capacity <= 1.08
    assert min(found) > 0, "and none is left without a rate"


def test_the_standard_sets_chat_finds_what_a_node_serves_within_its_time() -> None:
    """Eight servers as on H100s. A quick probe passes 128/s, a tenth too much; two thirds of the declared seconds are left then."""
    queue = Queue(512, 4.4)
    found = [searched(queue, a_workload(6.4, seed, **search_of("chat-8b"))) for seed in (2, 3, 13, 40)]
    assert all(state.highest and 0.95 <= state.highest / queue.capacity <= 1.05 for state in found), [state.summary() for state in found]


def test_a_server_with_half_a_percent_of_slow_requests_keeps_its_rate_at_a_target_of_99_percent() -> None:
    """At the lower end one or two slow requests of a probe are below 99 %: more requests show what is true."""
    queue = Queue(64, 1.0, slow=0.005, slow_s=60.0)
    found = [searched(queue, a_workload(3.0, seed, confirm="60s", tolerance="3%")) for seed in range(1, 6)]
    assert any(verdict.holds is None for state in found for _, verdict in state.probes), "the case occurs"
    assert all(state.highest and 0.95 <= state.highest / queue.capacity <= 1.05 for state in found), [state.summary() for state in found]


def test_a_server_that_misses_the_target_has_no_rate() -> None:
    found = searched(Queue(64, 1.0, slow=0.03, slow_s=60.0), a_workload(3.0, confirm="60s", tolerance="3%"))
    assert (found.highest, found.ending) == (None, "lower_end"), found.summary()


def test_a_probe_that_was_disturbed_does_not_halve_the_rate() -> None:
    queue = Queue(8, 0.1)
    found = searched(queue, a_workload(2.1, confirm="60s", tolerance="3%"), lambda number, planned: number == 2)
    assert found.probes[2][1].holds is False
    assert found.highest and found.highest > 0.95 * queue.capacity, found.summary()
