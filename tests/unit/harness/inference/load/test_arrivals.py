from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.load.schedule import Schedule, probe_load, schedule_of, turn_of


def workload(phases: list[dict[str, Any]] | None = None, **requests: Any) -> InferenceWorkload:
    data = json.loads(a_trial("inference").workload.model_dump_json()) | {"acceptance": []}
    data["requests"] |= requests
    if phases is not None:
        data["phases"] = phases
    return InferenceWorkload.model_validate_json(json.dumps(data))


def steady(arrivals: dict[str, Any], duration: str) -> list[dict[str, Any]]:
    return [{"name": "steady", "arrivals": arrivals, "duration": duration}]


def test_the_same_workload_gives_the_same_bytes() -> None:
    one, two = schedule_of(workload()), schedule_of(workload())
    assert one.sha256 == two.sha256
    assert one.n == sum(p.n for p in one.phases) > 0
    assert [p.name for p in one.phases] == ["warmup", "steady"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"output_tokens": {"constant": 15}},
        {"input_tokens": {"constant": 24}},
    ],
)
def test_the_hash_covers_what_is_asked(change: dict[str, Any]) -> None:
    assert schedule_of(workload(**change)).sha256 != schedule_of(workload()).sha256


def test_the_hash_covers_arrivals_and_durations() -> None:
    hashes = {
        schedule_of(workload(steady(arrivals, duration))).sha256
        for arrivals, duration in (
            ({"constant": {"rate": "10/s"}}, "2s"),
            ({"constant": {"rate": "10/s"}}, "1.95s"),
            ({"poisson": {"rate": "10/s"}}, "2s"),
        )
    }
    assert len(hashes) == 3


def test_the_hash_is_the_same_on_every_machine() -> None:
    """Known bytes: a change of numpy or of this code that moves an arrival makes old schedules irreproducible, and must be noticed."""
    known = workload(steady({"poisson": {"rate": "50/s"}}, "10s"), seed=1, input_tokens={"uniform": {"min": 1, "max": 9}})
    assert schedule_of(known).sha256 == "c27723d3e7e0480cb4794cd547c114e4f0eb1e85f8669d55bc7dcf8a7eab40ab"


def test_constant_arrivals() -> None:
    phase = schedule_of(workload(steady({"constant": {"rate": "4/s"}}, "2s"))).phases[0]
    assert phase.arrivals_s.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]


def test_poisson_arrivals_have_the_rate_and_the_gaps_of_a_poisson_process() -> None:
    phase = schedule_of(workload(steady({"poisson": {"rate": "100/s"}}, "200s"))).phases[0]
    times = phase.arrivals_s
    assert phase.n == pytest.approx(20_000, rel=0.03)
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0 and times[-1] < 200
    gaps = np.diff(times)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05), "exponential gaps have a coefficient of variation of one"
    assert np.all(times == np.rint(times * 1e6) / 1e6), "whole microseconds"


def test_phases_differ_although_the_seed_is_one() -> None:
    phases = [{"name": n, "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "5s"} for n in ("warmup", "steady")]
    one, two = schedule_of(workload(phases)).phases
    assert one.arrivals_s.tolist() != two.arrivals_s.tolist()


@pytest.mark.parametrize(
    ("tokens", "low", "high", "mean"),
    [
        ({"constant": 24}, 24, 24, 24.0),
        ({"uniform": {"min": 8, "max": 12}}, 8, 12, 10.0),
        ({"normal": {"mean": 24, "stddev": 6, "min": 8, "max": 48}}, 8, 48, 24.0),
        ({"normal": {"mean": 10, "stddev": 1000, "min": 8, "max": 12}}, 8, 12, 10.0),
    ],
)
def test_lengths(tokens: dict[str, Any], low: int, high: int, mean: float) -> None:
    drawn = schedule_of(workload(steady({"constant": {"rate": "100/s"}}, "30s"), input_tokens=tokens)).phases[0].input_tokens
    assert drawn.dtype == np.int32
    assert (drawn.min(), drawn.max()) == (low, high) or tokens.get("normal", {}).get("stddev") == 6
    assert low <= drawn.min() <= drawn.max() <= high
    assert drawn.mean() == pytest.approx(mean, rel=0.05)


def test_a_phase_without_any_arrival_is_refused() -> None:
    for seed in range(200):
        try:
            schedule_of(workload(steady({"poisson": {"rate": "1/s"}}, "1s"), seed=seed))
        except ValueError as error:
            assert str(error).startswith("phases[0] steady: ")
            assert f"seed {seed} " in str(error) and "requests.seed" in str(error)
            return
    pytest.fail("a Poisson process of mean one is empty for about a third of all seeds")


def test_planning_needs_no_client_and_no_torch() -> None:
    code = "import sys, plumbline.harness.inference.load.schedule as a; print([m for m in ('torch', 'tritonclient', 'grpc') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


CLOSED = steady({"closed": {"users": 3, "requests": 8, "think": "1.5s"}}, "60s")
TURNS = {"count": 3, "think": "2s"}
SHORT = {"input_tokens": {"constant": 10}, "output_tokens": {"constant": 5}}


def test_a_closed_loop_is_a_chain_for_each_user() -> None:
    phase = schedule_of(workload(CLOSED)).phases[0]
    assert phase.closed and phase.chains == 3
    assert phase.after.tolist() == [-1, -1, -1, 0, 1, 2, 3, 4]
    assert phase.arrivals_s.tolist() == [0.0, 0.0001, 0.0002, 1.5, 1.5, 1.5, 1.5, 1.5], "users begin one after the other, 0.1 ms apart"
    assert phase.after.dtype == phase.input_tokens.dtype == np.int32


def test_more_users_than_requests_leave_some_idle() -> None:
    phase = schedule_of(workload(steady({"closed": {"users": 9, "requests": 4}}, "60s"))).phases[0]
    assert phase.after.tolist() == [-1] * 4


def test_conversations_continue_after_their_answers_and_repeat_what_was_said() -> None:
    open_loop = workload(steady({"constant": {"rate": "2/s"}}, "1s"), turns=TURNS, **SHORT)
    phase = schedule_of(open_loop).phases[0]
    assert not phase.closed and phase.chains == 2
    assert phase.after.tolist() == [-1, -1, 0, 1, 2, 3]
    assert phase.arrivals_s.tolist() == [0.0, 0.5, 2.0, 2.0, 2.0, 2.0]
    assert phase.input_tokens.tolist() == [10, 10, 25, 25, 40, 40]
    assert turn_of(phase, open_loop.requests).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_shared_prefix_stands_in_a_conversation_once() -> None:
    phase = schedule_of(workload(steady({"constant": {"rate": "1/s"}}, "1s"), turns=TURNS, shared_prefix={"tokens": 6}, **SHORT)).phases[0]
    assert phase.input_tokens.tolist() == [10, 10 + 5 + 4, 10 + 5 + 4 + 5 + 4]


def test_users_of_a_closed_loop_begin_a_new_conversation_after_each() -> None:
    declared = workload(steady({"closed": {"users": 2, "requests": 9, "think": "9s"}}, "60s"), turns={"count": 2, "think": "1s"}, **SHORT)
    phase = schedule_of(declared).phases[0]
    assert phase.input_tokens.tolist() == [10, 10, 25, 25, 10, 10, 25, 25, 10]
    assert phase.arrivals_s.tolist() == [0.0, 0.0001, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 9.0]
    assert turn_of(phase, declared.requests).tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0]


def trace(rows: list[tuple[float, int, int]], **more: Any) -> dict[str, Any]:
    return {"trace": {"file": "x.csv", "layout": "azure", "rows": rows, **more}}


ROWS = [(0.0, 10, 2), (0.5, 20, 3), (3.0, 30, 4), (4.0, 40, 5)]


def test_a_trace_is_replayed_as_recorded_and_cut_at_the_end_of_the_phase() -> None:
    phase = schedule_of(workload(steady(trace(ROWS), "4s"))).phases[0]
    assert phase.arrivals_s.tolist() == [0.0, 0.5, 3.0]
    assert (phase.input_tokens.tolist(), phase.output_tokens.tolist()) == ([10, 20, 30], [2, 3, 4])
    assert phase.chains == phase.n
    twice = schedule_of(workload(steady(trace(ROWS, speed=2.0), "4s"))).phases[0]
    assert twice.arrivals_s.tolist() == [0.0, 0.25, 1.5, 2.0]


def test_a_trace_that_was_not_read_is_refused() -> None:
    unread = workload(steady({"trace": {"file": "x.csv", "layout": "azure"}}, "4s"))
    with pytest.raises(ValueError, match=r"phases\[0\] steady: x.csv"):
        schedule_of(unread)


def fault(**changes: Any) -> list[dict[str, Any]]:
    declared = {"name": "fault", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "10s", "inject": "overload", "at": "4s"}
    return [*steady({"constant": {"rate": "4/s"}}, "1s"), declared | changes]


def test_an_overload_is_in_the_schedule_and_another_fault_is_not() -> None:
    overload = schedule_of(workload(fault(lasts="2s", factor=3.0))).phases[1]
    assert overload.n == 140
    assert schedule_of(workload(fault(inject="server_kill"))).phases[1].n == 100


SEARCH = {"goodput": "99%", "between": ["2/s", "64/s"], "probe": "10s"}


def searching(**changes: Any) -> InferenceWorkload:
    return workload([*steady({"constant": {"rate": "4/s"}}, "1s"), {"name": "sweep", "search": SEARCH | changes}])


def test_a_search_is_hashed_and_its_probes_are_drawn_when_their_rate_is_known() -> None:
    schedule = schedule_of(searching())
    assert [phase.name for phase in schedule.phases] == ["steady"]
    assert len(schedule.searches) == 1
    hashes = {schedule_of(searching(**changes)).sha256 for changes in ({}, {"probe": "11s"}, {"tolerance": "10%"})}
    assert len(hashes) == 3


def test_a_probe_is_the_same_each_time_and_unlike_the_others() -> None:
    declared = searching()
    one, again, other = (probe_load(declared, 1, probe, 20.0, 10.0) for probe in (0, 0, 1))
    assert one.arrivals_s.tolist() == again.arrivals_s.tolist() != other.arrivals_s.tolist()
    assert (one.name, one.duration_s) == ("sweep", 10.0)
    assert (one.n, other.n) == (200, 200), "the rate is offered exactly"
    assert probe_load(declared, 1, 2, np.float64(1e-3) * 3e4, 60.0).n == 1800
    assert one.arrivals_s[0] >= 0 and one.arrivals_s[-1] < 10.0 and (np.diff(one.arrivals_s) >= 0).all()


def test_only_a_search_has_probes() -> None:
    with pytest.raises(TypeError, match=r"phases\[0\] steady"):
        probe_load(searching(), 0, 0, 20.0, 10.0)


CONTEXT = {"name": "context", "input_tokens": [16, 64], "requests": 5, "users": 2, "each": "9s"}


def growing(**changes: Any) -> InferenceWorkload:
    output = {"uniform": {"min": 2, "max": 60}}
    return workload([*steady({"constant": {"rate": "4/s"}}, "1s"), CONTEXT | changes], output_tokens=output)


def test_a_growing_context_is_a_closed_loop_for_each_length_with_the_same_outputs() -> None:
    schedule = schedule_of(growing())
    assert [(load.name, load.probe) for load in schedule.phases] == [("steady", None), ("context", 0), ("context", 1)]
    short, long = schedule.phases[1:]
    assert (set(short.input_tokens.tolist()), set(long.input_tokens.tolist())) == ({16}, {64})
    assert short.output_tokens.tolist() == long.output_tokens.tolist()
    assert (long.closed, long.duration_s, long.after.tolist()) == (True, 9.0, [-1, -1, 0, 1, 2])
    changed = [{}, {"input_tokens": [16, 63]}, {"requests": 6}, {"users": 1}, {"each": "8s"}]
    assert len({schedule_of(growing(**changes)).sha256 for changes in changed}) == len(changed)


def test_the_hash_covers_chains_and_closed_loops() -> None:
    declared = [
        workload(CLOSED),
        workload(steady({"closed": {"users": 4, "requests": 8, "think": "1.5s"}}, "60s")),
        workload(steady({"closed": {"users": 3, "requests": 8, "think": "1s"}}, "60s")),
        workload(steady({"constant": {"rate": "2/s"}}, "4s"), **SHORT),
        workload(steady({"constant": {"rate": "2/s"}}, "4s"), turns=TURNS, **SHORT),
    ]
    schedules = [schedule_of(one) for one in declared]
    load = schedules[0].phases[0]
    assert len({schedule.sha256 for schedule in schedules} | {Schedule((replace(load, closed=False),)).sha256}) == 6


def test_every_declared_load_survives_the_trial_file() -> None:
    """Of what is written and read again the same schedule is computed: the planner writes, the harness reads."""
    for declared in (workload(CLOSED, turns=TURNS | {"think": "0s"}, **SHORT), workload(steady(trace(ROWS), "4s")), searching()):
        again = InferenceWorkload.model_validate_json(declared.model_dump_json())
        assert schedule_of(again).sha256 == schedule_of(declared).sha256
