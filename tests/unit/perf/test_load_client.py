"""The benchmark of load clients: its search finds a known capacity, its watch sees a known CPU time, its aims can be missed."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

PERF = Path(__file__).resolve().parents[3] / "perf"
sys.path.insert(0, str(PERF))

from load_client import QUICK, TimeUp, highest, measure  # noqa: E402
from load_clients import ClientFailed, Run  # noqa: E402
from load_report import AIMS, Measured, write  # noqa: E402
from load_watch import watch  # noqa: E402

pytestmark = pytest.mark.integration  # real processes and the real clock


def run(client: str, rate: float, *, held: bool = True, p99: float = 1.0, cpu: float = 10.0) -> Run:
    return Run(client, rate, 100, 1.0, 0.5, p99, cpu, held)


@pytest.mark.parametrize("capacity", [120.0, 950.0, 1000.0, 7777.0])
def test_the_search_finds_the_capacity_to_within_a_step(capacity: float) -> None:
    found = highest(lambda rate: run("x", rate, held=rate <= capacity), 1000.0, 1.1, 2)
    assert found.best is not None
    assert capacity / 1.1 <= found.best.rate <= capacity


def test_a_server_below_the_lowest_rate_has_none() -> None:
    found = highest(lambda rate: run("x", rate, held=False), 1000.0, 1.1, 1, lowest=500.0)
    assert found.best is None and not found.cut


def test_one_disturbed_try_is_forgiven_and_a_client_that_fails_has_not_held() -> None:
    tried: dict[float, int] = {}

    def probe(rate: float) -> Run:
        tried[rate] = tried.get(rate, 0) + 1
        if rate > 3000:
            raise ClientFailed("no report")
        return run("x", rate, held=tried[rate] == 2)

    found = highest(probe, 1000.0, 1.1, 2)
    assert found.best is not None and 3000 / 1.1 <= found.best.rate <= 3000
    assert max(tried.values()) == 2


def test_nobody_tries_again_what_was_far_off_and_time_that_is_up_ends_a_search() -> None:
    tried: list[float] = []

    def probe(rate: float) -> Run:
        tried.append(rate)
        if len(tried) > 3:
            raise TimeUp
        return replace(run("x", rate, held=rate <= 1000), achieved=1.0 if rate <= 1000 else 0.5)

    found = highest(probe, 1000.0, 1.1, 2)
    assert found.cut and found.best is not None and found.best.rate == 1000
    assert len(set(tried)) == len(tried) == 4


class Nowhere:
    """A server that nobody asks."""

    http = "127.0.0.1:1"


class Paced:
    """A client that keeps up 500/s and takes `takes_s` for a run; it fails in its run number `fails`."""

    def __init__(self, name: str, takes_s: float, fails: int = 0) -> None:
        self.name, self.takes_s, self.fails, self.ran = name, takes_s, fails, 0

    def install(self) -> None:
        """Nothing to do."""

    def run(self, server: object, rate: float, seconds: float, seed: int, folder: Path, *, patient: bool = True) -> Run:
        self.ran += 1
        if self.ran == self.fails:
            raise ClientFailed("no report")
        time.sleep(self.takes_s)
        return run(self.name, rate, held=rate <= 500)


def test_what_was_measured_until_time_is_up_is_kept_and_what_is_missing_is_named(tmp_path: Path) -> None:
    out = Measured()
    effort = replace(QUICK, rounds=2, search_s=0.0, latency_s=0.0, minutes=1.0 / 60)
    clients = [Paced("plumbline", 0.0), Paced("perf_analyzer", 0.0, fails=2), Paced("aiperf", 0.3)]
    measure(Nowhere(), clients, effort, tmp_path, out)  # type: ignore[arg-type]
    assert set(out.rounds) >= {"plumbline"} and out.failed == {"perf_analyzer": "no report"}
    assert out.seconds < 30 and len(out.runs) > 4
    assert any("aiperf" in left for left in out.left)
    text = write({"triton": out, "echo": Measured()}, tmp_path / "load.json", "a test")
    assert "Time was up" in text and out.failed["perf_analyzer"] in text
    assert json.loads((tmp_path / "load.json").read_text())["servers"]["triton"]["left"] == out.left
    both = {name: measured(9000, 4000, 700) for name in ("triton", "echo")}
    assert "Time was up" not in write(both, None, "a test")
    assert "not measured" in write({"triton": Measured(), "echo": Measured()}, None, "interrupted before anything")


def measured(ours: float, theirs: float, aiperf: float, p99: float = 1.0, cpu: float = 10.0, spread: float = 1.0) -> Measured:
    """Three rounds; `spread`: by how much the second and third differ from the first, up and down."""
    out = Measured()
    for number in range(3):
        noise = (1.0, spread, 1 / spread)[number]
        for client, rate, tail, micros in (
            ("plumbline", ours * noise, p99 * noise, cpu * noise),
            ("perf_analyzer", theirs, 2.0, 80.0),
            ("aiperf", aiperf, 50.0, 2000.0),
        ):
            latencies = {at: run(client, at, p99=tail, cpu=micros) for at in (200.0, 1000.0, 4000.0)}
            out.add(client, number, latencies, run(client, rate, cpu=micros))
    return out


def test_aims_are_met_missed_or_undecided_by_whole_intervals(tmp_path: Path) -> None:
    good = {name: measured(9000, 4000, 700, spread=1.01) for name in ("triton", "echo")}
    assert [aim.verdict(good) for aim in AIMS] == ["met"] * 5
    bad = {name: measured(6000, 6000, 900, p99=1.9, cpu=60, spread=1.01) for name in ("triton", "echo")}
    assert [aim.verdict(bad) for aim in AIMS] == ["missed"] * 5
    noisy = {name: measured(9000, 4000, 700, p99=1.5, cpu=35, spread=1.6) for name in ("triton", "echo")}
    assert {aim.verdict(noisy) for aim in AIMS} == {"undecided"}
    text = write(noisy, tmp_path / "figures" / "load.json", "a test")
    assert "rounds would decide" in text
    assert (tmp_path / "figures" / "load.md").read_text() == text
    without = dict(good)
    del without["triton"].rounds["aiperf"]
    assert AIMS[-1].verdict(without) == "not measured"


def test_a_ratio_is_the_geometric_mean_with_a_t_interval() -> None:
    ratio = measured(8000, 4000, 700, spread=1.1).ratio("perf_analyzer", lambda each: each.best.rate if each.best else None)
    assert ratio is not None and ratio.interval is not None
    half = 4.3027 * math.log(1.1) / math.sqrt(3)  # t of two degrees of freedom
    assert ratio.value == pytest.approx(2.0)
    assert ratio.interval == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)), rel=1e-4)
    assert ratio.rounds_for(2.0) is None and 3 < (ratio.rounds_for(1.8) or 0) < 10


SPIN = """
import sys, time
end = time.monotonic() + 3
while time.monotonic() < end:
    until = time.thread_time() + 0.004
    while time.thread_time() < until:
        pass
    with open(sys.argv[1], "a") as file:
        file.write("x" * 10)
"""


@pytest.mark.exclusive
def test_cpu_for_a_request_is_what_the_client_spent(tmp_path: Path) -> None:
    counter = tmp_path / "served"
    counter.touch()
    seen = watch([sys.executable, "-c", SPIN, str(counter)], lambda: counter.stat().st_size, cwd=tmp_path, within_s=30)
    assert seen.status == 0 and seen.requests == counter.stat().st_size
    assert seen.cpu_us is not None and 380 <= seen.cpu_us <= 600


@pytest.mark.full
def test_a_client_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    command = ["sh", "-c", f"sleep 300 & echo $! > {tmp_path / 'child'}; echo said; wait"]
    seen = watch(command, lambda: 0, cwd=tmp_path, within_s=3)
    assert seen.status < 0 and seen.output == "said\n" and seen.cpu_us is None
    assert time.monotonic() - began < 60
    child = int((tmp_path / "child").read_text())
    assert _eventually(lambda: not _alive(child))


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] and os.kill(pid, 0) is None
    except (FileNotFoundError, ProcessLookupError):
        return False


def _eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
