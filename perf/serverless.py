"""The billed time of an endpoint that scales to zero, by the formula of `analysis.cost.scale_to_zero` and by a simulation of events.

The simulation knows workers, slots, a queue and a clock, and none of the formula. Requests arrive at random and stay for a constant, an
exponential or a log-normal time. Prints hours of a month of 730.5, and what 1 / rate as the time of a request gives. The formula is exact for
a constant time. Exits with 1 if it is off by more than 5 %; where a minimum is billed, it may be too high by more than that: requests that
wait for the start and stay for different times keep a worker up for longer, and it starts less often.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

from plumbline.analysis.cost.scale_to_zero import MONTH_S, ScaleToZero

OFF = 0.05
SERVICE: dict[str, Callable[[random.Random, float], float]] = {
    "constant": lambda _, mean: mean,
    "exponential": lambda rng, mean: rng.expovariate(1 / mean),
    "log-normal": lambda rng, mean: mean * rng.lognormvariate(-0.18, 0.6),
}
PLACES = {
    "19/s, 5 s, no idle time": ScaleToZero(19.0, 5.0),
    "19/s, 5 s, idle 5 s, start 10 s": ScaleToZero(19.0, 5.0, idle=5.0, start=10.0),
    "19/s, 5 s, idle 60 s, start 30 s": ScaleToZero(19.0, 5.0, idle=60.0, start=30.0),
    "19/s, 5 s, minimum 60 s, start 10 s": ScaleToZero(19.0, 5.0, minimum=60.0, start=10.0),
    "1/s, 1 s, one slot, start 10 s": ScaleToZero(1.0, 1.0, start=10.0),
    "1/s, 4 s, four slots, idle 2 s, start 10 s": ScaleToZero(1.0, 4.0, idle=2.0, start=10.0),
}
VOLUMES = {"low": 1_000.0, "middle": 0.05 * MONTH_S, "high": 0.6 * MONTH_S}
"""Requests a month."""


def billed_share(place: ScaleToZero, volume: float, service: str, arrivals: int, seed: int) -> float:
    """Billed over wall time of one worker by events, over so many arrivals."""
    rng, draw, per_s = random.Random(seed), SERVICE[service], volume / MONTH_S
    slots = max(1, math.ceil(round(place.rate * place.residence, 9)))
    now = billed = 0.0
    left = arrivals
    while left > 0:  # one cycle: off until a request comes, then up until none came for the idle time
        now += rng.expovariate(per_s)
        began = now
        ready, busy, waiting = now + place.start, list[float](), 1
        coming = now + rng.expovariate(per_s)
        left -= 1
        at = ready
        while coming <= ready:
            waiting, left, coming = waiting + 1, left - 1, coming + rng.expovariate(per_s)
        while True:
            while waiting and len(busy) < slots:
                waiting -= 1
                heapq.heappush(busy, at + draw(rng, place.residence))
            until = busy[0] if busy else at + place.idle
            if left <= 0:  # the last cycle, cut: a busy endpoint never ends one
                until = at
                break
            if coming <= until:
                at, waiting, left, coming = coming, waiting + 1, left - 1, coming + rng.expovariate(per_s)
            elif busy:
                at = heapq.heappop(busy)
            else:
                break
        now = until
        billed += max(now - began, place.minimum)
        # The request that comes next starts the next cycle: the wait for it is memoryless, and drawn there.
    return billed / now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=200_000, help="requests of each simulation")
    arrivals: int = parser.parse_args().arrivals
    print(f"{'endpoint':44}{'volume':8}{'service':13}{'simulated h':>12}{'formula h':>11}{'off':>8}{'1/rate h':>10}")
    worst = 0.0
    for name, place in PLACES.items():
        for size, volume in VOLUMES.items():
            formula = place.hours(volume)
            for service in SERVICE:
                simulated = billed_share(place, volume, service, arrivals, 7) * MONTH_S / 3600
                off = formula / simulated - 1
                worst = max(worst, -off if place.minimum else abs(off))
                print(f"{name:44}{size:8}{service:13}{simulated:12.3f}{formula:11.3f}{100 * off:7.2f}%{volume / place.rate / 3600:10.3f}")
    print(f"largest difference {100 * worst:.2f} %, of endpoints with a minimum the largest that is too low")
    return int(worst > OFF)


if __name__ == "__main__":
    sys.exit(main())
