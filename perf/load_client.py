"""Our load client against its peers, on one Triton that does nothing, in one run: `make perf-load`, or `python perf/load_client.py`.

rate      the highest rate of Poisson arrivals that a client keeps up: sent and answered at 99.5 % of it at least and, for ours, p99
          dispatch delay below 10 ms, no error and each answer's size right (a peer is judged by the rate that it reports, with what a
          Poisson count varies by in its favour). Each rate has two tries: one is enough, for a busy machine can only hide, not help
cpu       user and system time of the client's processes for a request, seen from outside, in the middle of a run
latency   p50 and p99 at 200 and 1,000 requests a second, as each client reports them (ours count from the scheduled moment)

Rounds are paired: in each, every client is measured right after the other, and the order alternates. A ratio is the median of the
rounds' ratios. All traffic stays on loopback. Exit status 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from load_clients import AiPerf, Client, ClientFailed, Ours, PerfAnalyzer, Run
from load_report import AIMS, Measured, write
from load_server import Server

RATES = (200.0, 1000.0)


@dataclass(frozen=True)
class Effort:
    """How much is measured. `step`: ratio of one rate of the search to the next; seconds of load at a rate, in the search and for
    latencies; `tries`: of a rate in the search; `minutes`: no round begins that would not be done by then."""

    rounds: int
    step: float
    tries: int
    search_s: float
    latency_s: float
    minutes: float


FULL, QUICK = Effort(4, 1.08, 2, 4.5, 8.0, 12.0), Effort(1, 1.25, 1, 1.5, 2.0, 2.0)
STRIDE = 1.5


@dataclass
class Searched:
    """Probes of one search, and the last rate that held (None: not even the lowest)."""

    best: Run | None = None
    runs: list[Run] = field(default_factory=list)


def highest(probe: Callable[[float], Run], start: float, step: float, tries: int, *, lowest: float = 50.0) -> Searched:
    """The highest rate that holds, to within one step: strides of about half a rate up (or down) from `start`, then halving.

    A rate at which the client fails has not held.
    """
    found, rungs = Searched(), {}
    stride = max(1, round(math.log(STRIDE) / math.log(step)))

    def holds(rung: int) -> bool:
        rate = max(lowest, start * step**rung)
        for _ in range(tries):
            try:
                run = probe(rate)
            except ClientFailed as error:
                print(f"  {error}", flush=True)
                continue
            found.runs.append(run)
            if run.held:
                rungs[rung] = run
                return True
        return False

    low, high = 0, stride
    if holds(0):
        while holds(high):
            low, high = high, high + stride
    else:
        low, high = -stride, 0
        while not holds(low):
            if start * step**low <= lowest:
                return found
            low, high = low - stride, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    found.best = rungs[low]
    return found


def measure(server: Server, clients: Sequence[Client], effort: Effort, folder: Path) -> Measured:
    """All rounds; a client that fails is left out from then on, with its reason."""
    began, longest, seed = time.monotonic(), 0.0, 0
    out = Measured()
    starts = {Ours.name: 8000.0, PerfAnalyzer.name: 6000.0, AiPerf.name: 500.0}
    active = list(clients)

    def one(client: Client, rate: float, seconds: float) -> Run:
        nonlocal seed
        seed += 1
        run = client.run(server, rate, seconds, seed, folder)
        cpu = "–" if run.cpu_us is None else f"{run.cpu_us:.0f}"
        print(
            f"  {run.client:14} {run.rate:8,.0f}/s  achieved {run.achieved:7.2%}  p99 {run.p99_ms:9.2f} ms  CPU {cpu:>5} µs  "
            f"{'held' if run.held else 'not held'} {run.note}",
            flush=True,
        )
        return run

    for number in range(effort.rounds):
        if number and time.monotonic() - began + longest > effort.minutes * 60:
            print(f"time is up after {number} rounds")
            break
        print(f"round {number + 1}", flush=True)
        at = time.monotonic()
        for client in active[:] if number % 2 == 0 else active[::-1]:
            if client.name == AiPerf.name and number:
                continue  # a rate a tenth of the others' needs no second look, and each of its starts takes half a run
            try:
                if not number:
                    client.run(server, 500.0, 1.5, 0, folder)  # the first requests of all warm the server up and are not kept
                latencies = {rate: one(client, rate, effort.latency_s) for rate in RATES}
                searched = highest(
                    lambda rate, client=client: one(client, rate, effort.search_s),  # type: ignore[misc]
                    starts[client.name],
                    effort.step if client.name != AiPerf.name else max(effort.step, 1.2),
                    effort.tries,
                )
            except ClientFailed as error:
                print(f"  {client.name}: {error}", flush=True)
                out.failed[client.name] = str(error)
                active.remove(client)
                continue
            out.add(client.name, number, latencies, searched.best, searched.runs)
            if searched.best:
                starts[client.name] = searched.best.rate
        longest = max(longest, time.monotonic() - at)
    out.seconds = time.monotonic() - began
    return out


def main() -> int:
    """Install the peers, measure, write the figures, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round in about two minutes: to see that it works, not to be quoted")
    parser.add_argument("--out", type=Path, help="write the figures to this .json and the table beside it as .md")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    clients: list[Client] = [Ours(), PerfAnalyzer(), AiPerf()]
    failed = {}
    for client in clients[:]:
        print(f"installing {client.name}", flush=True)
        try:
            client.install()
        except ClientFailed as error:
            failed[client.name] = f"not installed: {error}"
            clients.remove(client)
    with tempfile.TemporaryDirectory(prefix="plumbline-perf-") as name, Server(Path(name)) as server:
        measured = measure(server, clients, effort, Path(name))
    measured.failed |= failed
    text = write(measured, options.out, "make perf-load" + (" ARGS=--quick" if options.quick else ""))
    print(text)
    return 0 if all(aim.met(measured) for aim in AIMS) else 1


if __name__ == "__main__":
    raise SystemExit(main())
