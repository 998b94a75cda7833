"""The watch in a process pinned to one core, with and without real neighbours on it. Runs are compared with each other: how
busy the machine is beside the tests is not known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.data.result_documents import VALIDITY
from tests.fakes.quick_python import search_path

from plumbline.declarations import ValidityLimits
from plumbline.harness.contention_monitor import ContentionMonitor

pytestmark = pytest.mark.integration  # real processes and the real clock

CORES = sorted(os.sched_getaffinity(0))
CORE = CORES[-1]
SPIN = "while True: pass"
# Pins itself, keeps its core busy in phase steady (alone or with children of its own), prints what was seen.
WATCHED = """
import json, os, subprocess, sys, time
from dataclasses import asdict
core, children, limits = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.sched_setaffinity(0, {core})
from plumbline.declarations import ValidityLimits
from plumbline.harness.contention_monitor import ContentionMonitor
limits = ValidityLimits.model_validate_json(limits)
with ContentionMonitor([core]) as watch:
    own = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(children)]
    time.sleep(0.3)
    with watch.phase("steady"):
        end = time.monotonic() + 1.5
        while time.monotonic() < end: pass
    for child in own:
        child.kill()
        child.wait()
    found = watch.judgements(limits)
    means = {row.signal: row.mean for row in watch.telemetry()}
    middle = (means.get("cpu_pressure_some", 0.0) + means["foreign_cpu"]) / 2
    at_middle = watch.judgements(limits.model_copy(update={"cpu_pressure_degraded": middle}))
    below_both = watch.judgements(limits.model_copy(update={"cpu_pressure_degraded": min(means.get("cpu_pressure_some", 0.0), means["foreign_cpu"]) - 0.01}))
print(json.dumps({
    "telemetry": {row.signal: row.model_dump() for row in watch.telemetry()},
    "at_middle": [j.reason.code for j in at_middle],
    "below_both": [j.reason.code for j in below_both],
    "judgements": [[j.level, j.reason.code, j.reason.detail] for j in found],
}))
"""


def watched(neighbours: int = 0, children: int = 0) -> dict:
    with ExitStack() as stack:
        for _ in range(neighbours):
            neighbour = subprocess.Popen([sys.executable, "-c", SPIN])
            stack.callback(neighbour.wait)
            stack.callback(neighbour.kill)
            os.sched_setaffinity(neighbour.pid, {CORE})
        command = [sys.executable, "-c", WATCHED, str(CORE), str(children), VALIDITY.model_dump_json()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": search_path("include")})
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone() -> dict:
    return watched()


@pytest.fixture(scope="module")
def crowded() -> dict:
    return watched(neighbours=6)


@pytest.fixture(scope="module")
def with_children() -> dict:
    return watched(children=6)


@pytest.mark.exclusive
def test_neighbours_on_the_core_show_and_make_the_trial_invalid(alone, crowded):
    assert crowded["telemetry"]["foreign_cpu"]["mean"] > alone["telemetry"]["foreign_cpu"]["mean"] + 0.05
    assert ["invalid", "contended_cpu"] in [judgement[:2] for judgement in crowded["judgements"]]
    detail = next(d for _, code, d in crowded["judgements"] if code == "contended_cpu")
    assert f"core {CORE} " in detail and detail.endswith("40%")


@pytest.mark.exclusive
def test_children_of_the_trial_are_no_neighbours(crowded, with_children):
    assert with_children["telemetry"]["foreign_cpu"]["mean"] < crowded["telemetry"]["foreign_cpu"]["mean"] - 0.1
    assert with_children["telemetry"]["own_cpu"]["mean"] > crowded["telemetry"]["own_cpu"]["mean"] + 0.1


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel has no PSI")
@pytest.mark.exclusive
def test_neighbours_put_a_trial_under_pressure(crowded):
    assert "cpu_pressure" in crowded["below_both"]


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="this kernel has no PSI")
@pytest.mark.exclusive
def test_a_trial_that_waits_for_itself_is_not_under_pressure(with_children):
    """Seven busy tasks of the trial share one core: PSI is high, but not because of anybody else. A limit between the two signals shows it."""
    telemetry = with_children["telemetry"]
    assert telemetry["cpu_pressure_some"]["mean"] > telemetry["foreign_cpu"]["mean"] + 0.1
    assert "cpu_pressure" not in with_children["at_middle"]


@pytest.mark.exclusive
def test_a_watch_says_what_it_costs(alone):
    """How little that is depends on the machine and its load: `make perf-training` holds it against a bound, in pairs."""
    assert 0 < alone["telemetry"]["watch_overhead"]["mean"] < 0.5


def limits(**changed: str) -> ValidityLimits:
    return ValidityLimits.model_validate_json(json.dumps({**json.loads(VALIDITY.model_dump_json()), **changed}))


@pytest.mark.exclusive
def test_limits_decide():
    """Whatever was seen here: a limit above it keeps quiet, one below it does not."""
    cpus = sorted(os.sched_getaffinity(0))
    with ContentionMonitor(cpus) as watch:
        neighbour = subprocess.Popen([sys.executable, "-c", "import os\nif os.fork():\n  os._exit(0)\nfor _ in range(10**7): pass"])
        neighbour.wait()
        with watch.phase("steady"):
            sum(range(20_000_000))
    seen = next(row.mean for row in watch.telemetry() if row.signal == "foreign_cpu")
    above, below = f"{100 * seen + 0.1:.6f}%", f"{max(100 * seen - 0.1, 0):.6f}%"
    quiet = limits(foreign_cpu_degraded=above, foreign_cpu_invalid="100%", cpu_pressure_degraded="100%", cpu_pressure_invalid="100%")
    assert watch.judgements(quiet) == []
    if seen > 0.001:
        degraded = limits(foreign_cpu_degraded=below, foreign_cpu_invalid=above)
        assert [j.level for j in watch.judgements(degraded) if j.reason.code == "contended_cpu"] == ["degraded"]
        invalid = limits(foreign_cpu_degraded=below, foreign_cpu_invalid=below)
        assert [j.level for j in watch.judgements(invalid) if j.reason.code == "contended_cpu"] == ["invalid"]


def test_samples_belong_to_the_innermost_phase():
    with ContentionMonitor([CORE]) as watch, watch.phase("fault"):
        sum(range(1_000_000))
        with watch.phase("recovery"):
            sum(range(1_000_000))
    rows = {(row.phase, row.signal): row for row in watch.telemetry()}
    assert {phase for phase, _ in rows} == {"fault", "recovery"}
    assert all(row.min <= row.mean <= row.max and row.n >= 1 for row in rows.values())


def test_a_phase_that_nobody_watched_is_not_undisturbed():
    with ContentionMonitor([CORE]) as watch, watch.phase("warmup"):
        pass
    (found,) = watch.judgements(VALIDITY, "steady")
    assert (found.level, found.reason.code) == ("degraded", "contention_unobserved")


def test_a_core_that_does_not_exist_makes_the_watch_blind_not_wrong():
    with ContentionMonitor([4095]) as watch, watch.phase("steady"):
        pass
    (found,) = watch.judgements(VALIDITY)
    assert found.reason.code == "contention_unobserved"
    assert "cpu4095" in found.reason.detail


def test_no_cores_are_an_error():
    with pytest.raises(ValueError, match="cpus is empty"):
        ContentionMonitor([])


def test_others_on_a_shared_node_take_nothing_until_they_use_more_than_the_rest():
    """A pod that was promised one core of two: a neighbour may have the other one."""
    if len(CORES) < 2:
        pytest.skip("needs two cores")
    spin = f"import os\nos.sched_setaffinity(0, {{{CORES[1]}}})\n{SPIN}"
    # Through a process that is gone at once: a descendant of the watched one is no neighbour.
    start = "import subprocess as s, sys; print(s.Popen([sys.executable, '-c', sys.argv[1]], stdout=s.DEVNULL, stderr=s.DEVNULL).pid)"
    pid = int(subprocess.run([sys.executable, "-c", start, spin], stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout)
    with ExitStack() as stack:
        stack.callback(os.kill, pid, signal.SIGKILL)
        time.sleep(0.3)
        with (
            ContentionMonitor(CORES[:2]) as alone,
            ContentionMonitor(CORES[:2], promised=1) as shared,
            alone.phase("steady"),
            shared.phase("steady"),
        ):
            time.sleep(1.2)
    whole = next(row.mean for row in alone.telemetry() if row.signal == "foreign_cpu")
    part = next(row.mean for row in shared.telemetry() if row.signal == "foreign_cpu")
    assert whole > 0.4, "the neighbour has one core of two"
    # Half-second windows are judged one by one, so bursts count that the mean over the phase hides: a bound, not an equation.
    assert part <= min(max(2 * whole - 1, 0) + 0.35, whole + 0.02), "of the one that was promised others had only what exceeds the rest"


def test_a_sweep_is_judged_with_the_steady_phase_where_there_is_one():
    without = limits(foreign_cpu_degraded="100%", foreign_cpu_invalid="100%", cpu_pressure_degraded="100%", cpu_pressure_invalid="100%")
    with ContentionMonitor([CORE]) as watch:
        with watch.phase("steady"):
            sum(range(1_000_000))
        assert watch.judgements(without) == []
        with watch.phase("sweep"):
            sum(range(1_000_000))
    watch._signals["sweep", "foreign_cpu"].weighted = watch._signals["sweep", "foreign_cpu"].seconds  # all of it went to others
    assert watch.judgements(without)[0].reason.detail.startswith(f"others used 100% of core {CORE} in sweep")
    assert watch.judgements(without, "warmup")[0].reason.code == "contention_unobserved"
