"""The load client against its peers in one run, on two servers: `make perf-load`, or `python perf/load_client.py`.

The servers are a Triton whose model returns its input, and one that only answers, so that the highest rate is the client's and not Triton's. Client
and server have a core each.

rate      the highest rate of Poisson arrivals that a client sustains: at least 99.5 % of it sent and answered and, for ours, p99 dispatch
          delay below 10 ms, no error and each answer's size right (a peer is judged by the rate that it reports, with the variation of a
          Poisson count in its favour). Each rate has two tries and needs one: a busy machine can only hide a success
cpu       user and system time of the client's processes for a request, measured from outside, in the middle of a run; compared at equal rates
latency   p50 and p99 at 200, 1,000 and 4,000 requests a second, as each client reports them (ours count from the scheduled time)

Rounds are paired: in each, the clients run one after the other, in alternating order. A ratio is the geometric mean of the
rounds' ratios, with a 95 % interval by a paired t on their logarithms. All traffic
stays on loopback. The measurement ends by the clock; results so far are written, also if the run is interrupted or terminated. Exit status 1 if an
aim is missed; one whose interval holds its bound is undecided.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from load_clients import AiPerf, Client, ClientFailed, Ours, PerfAnalyzer, Run
from load_report import AIMS, Measured, write
from load_server import EchoServer, Server

RATES = (200.0, 1000.0, 4000.0)


@dataclass(frozen=True)
class Effort:
    """Size of the measurement. `step`: ratio of one rate of the search to the next; seconds of load at a rate, in the search and for
    latencies; `tries`: of a rate in the search; `minutes`: limit of the whole run.
    """

    rounds: int
    step: float
    tries: int
    search_s: float
    latency_s: float
    minutes: float


FULL, QUICK = Effort(7, 1.1, 2, 3.0, 5.0, 40.0), Effort(5, 1.25, 1, 1.5, 3.0, 15.0)
STRIDE = 1.5


class TimeUp(Exception):
    """No time is left for another run."""


@dataclass
class Searched:
    """The highest passing rate (None: not even the lowest). `cut`: time ended before it was narrowed down."""

    best: Run | None = None
    cut: bool = False


def highest(probe: Callable[[float], Run], start: float, step: float, tries: int, *, lowest: float = 50.0) -> Searched:
    """The highest passing rate, to within one step: strides of about half a rate up (or down) from `start`, then bisection.

    A rate at which the client fails does not pass. A rate that is far behind is not retried. A probe that raises TimeUp ends the search.
    """
    searched, rungs = Searched(), {}
    stride = max(1, round(math.log(STRIDE) / math.log(step)))

    def holds(rung: int) -> bool:
        rate = max(lowest, start * step**rung)
        for _ in range(tries):
            try:
                run = probe(rate)
            except ClientFailed as error:
                print(f"  {error}", flush=True)
                return False
            if run.held:
                rungs[rung] = run
                return True
            if run.hopeless:
                return False
        return False

    try:
        low, high = 0, stride
        if holds(0):
            while holds(high):
                low, high = high, high + stride
        else:
            low, high = -stride, 0
            while not holds(low):
                if start * step**low <= lowest:
                    return searched
                low, high = low - stride, low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(middle) else (low, middle)
    except TimeUp:
        searched.cut = True
    searched.best = rungs[max(rungs)] if rungs else None
    return searched


def measure(server: Server, clients: Sequence[Client], effort: Effort, folder: Path, out: Measured) -> None:
    """Run all rounds at one server into `out`. A client that fails is skipped from then on, with its reason; so are runs without time."""
    began, seed = time.monotonic(), 0
    starts = {Ours.name: 8000.0, PerfAnalyzer.name: 6000.0, AiPerf.name: 500.0}
    active = list(clients)

    def one(client: Client, rate: float, seconds: float, patient: bool) -> Run:
        nonlocal seed
        seed += 1
        out.seconds = time.monotonic() - began
        if out.seconds + 2 * seconds > effort.minutes * 60:
            raise TimeUp
        run = client.run(server, rate, seconds, seed, folder, patient=patient)
        out.runs.append(run)
        out.seconds = time.monotonic() - began
        cpu = "–" if run.cpu_us is None else f"{run.cpu_us:.0f}"
        print(
            f"  {run.client:14} {run.rate:8,.0f}/s  achieved {run.achieved:7.2%}  p99 {run.p99_ms:9.2f} ms  CPU {cpu:>5} µs  "
            f"{'held' if run.held else 'not held'} {run.note}",
            flush=True,
        )
        return run

    for number in range(effort.rounds):
        print(f"round {number + 1}", flush=True)
        for client in active[:] if number % 2 == 0 else active[::-1]:
            if client.name == AiPerf.name and (number or not server.http):
                continue  # one round suffices for a rate a tenth of the others', and each of its starts takes half a run
            rates = RATES[:2] if client.name == AiPerf.name else RATES
            try:
                if not number:
                    client.run(server, 500.0, 1.5, 0, folder)  # the first requests warm the server up and are discarded
                latencies = {rate: one(client, rate, effort.latency_s, True) for rate in rates[:2]}
                for rate in rates[2:]:
                    with suppress(ClientFailed):  # a client that is no match for it has its other figures
                        latencies[rate] = one(client, rate, effort.latency_s, True)
                searched = highest(
                    lambda rate, client=client: one(client, rate, effort.search_s, False),  # type: ignore[misc]
                    starts[client.name],
                    effort.step if client.name != AiPerf.name else max(effort.step, 1.25),
                    effort.tries,
                )
            except ClientFailed as error:
                print(f"  {client.name}: {error}", flush=True)
                out.failed[client.name] = str(error)
                active.remove(client)
                continue
            except TimeUp:
                out.left.append(f"{client.name}, round {number + 1}")
                continue
            # The rate of an unfinished search is only a lower bound and is part of no ratio.
            if searched.cut:
                out.left.append(f"the highest rate of {client.name}, round {number + 1}")
            out.add(client.name, number, latencies, None if searched.cut else searched.best)
            if searched.best:
                starts[client.name] = searched.best.rate


def main() -> int:
    """Install the peers, measure, write the figures, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five short rounds, under fifteen minutes")
    parser.add_argument("--out", type=Path, help="write the figures to this .json and the table beside it as .md")
    parser.add_argument("--rounds", type=int, help="this many instead; 1 is a functional test")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    effort = replace(effort, rounds=options.rounds or effort.rounds, minutes=effort.minutes / 2)  # of each server
    clients: list[Client] = [Ours(), PerfAnalyzer(), AiPerf()]
    failed = {}
    for client in clients[:]:
        print(f"installing {client.name}", flush=True)
        try:
            client.install()
        except ClientFailed as error:
            failed[client.name] = f"not installed: {error}"
            clients.remove(client)
    measured = {kind.name: Measured(failed=dict(failed)) for kind in (Server, EchoServer)}
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        for kind in (Server, EchoServer):
            with tempfile.TemporaryDirectory(prefix="plumbline-perf-") as name, kind(Path(name)) as server:
                print(f"server: {kind.needs}", flush=True)
                measure(server, clients, effort, Path(name), measured[kind.name])
                if isinstance(server, EchoServer):
                    measured[kind.name].server_us = server.cpu_s() / max(1, server.served()[0]) * 1e6
    finally:
        print(write(measured, options.out, "make perf-load" + (" ARGS=--quick" if options.quick else "")))
    return 1 if any(aim.verdict(measured) == "missed" for aim in AIMS) else 0


if __name__ == "__main__":
    raise SystemExit(main())
