"""The pooled verdict on simulated fleets: how often a step tied to a driver is found, and a harmless driver change is called harmful.

Each world has providers that run 13 trainings and 7 inference workloads with three repeats in one campaign before the driver and three after
it. A campaign of a provider has a mood (0.5 %), each series one of its own (0.4 %), a repeat 0.2 to 3 % by workload. In a fifth of the worlds
the whole fleet moves by 4 % at the same time, as with a new harness; one untouched provider in 50 has a step of its own of 10 %. A step slows the trainings
of each touched provider by itself ± 15 % of itself. Campaigns arrive one provider after the other in random order, and arrivals of
touched providers, three or four of them a campaign, judge again, as reviews do. Exits with 1 if more than 1 % of the harmless changes alarm.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

from plumbline.analysis.drift.pooled import SeriesShift, pooled_effect, standard_error

KINDS = {"training": 13, "inference": 7}
LOOKS, REPEATS, WARN = 3, 3, 0.05
MOOD, OWN, NOISE = 0.005, 0.004, (0.002, 0.03)
FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class World:
    """`touched` of `providers` get the driver, which slows their trainings by `step`."""

    providers: int
    touched: int
    step: float


def looks(world: World, rng: random.Random) -> Iterator[tuple[int, dict[int, list[SeriesShift]]]]:
    """Each campaign after the driver: its number, and provider → shifts against the campaign before."""
    fleet = rng.choice((-0.04, 0.04)) if rng.random() < 0.2 else 0.0
    noise = {(kind, n): math.exp(rng.uniform(*map(math.log, NOISE))) for kind, count in KINDS.items() for n in range(count)}
    slower = {p: math.log1p(world.step * rng.gauss(1, 0.15)) if p < world.touched else 0.0 for p in range(world.providers)}
    stray = {p: 0.1 for p in range(world.touched, world.providers) if rng.random() < 0.02}

    def level(mood: float, sd: float) -> tuple[float, list[float]]:
        middle = mood + rng.gauss(0, OWN)
        values = [middle + rng.gauss(0, sd) for _ in range(REPEATS)]
        return sum(values) / REPEATS, values

    moods = [rng.gauss(0, MOOD) for _ in range(world.providers)]
    before = {(p, w): level(moods[p], sd) for p in range(world.providers) for w, sd in noise.items()}
    for look in range(1, LOOKS + 1):
        shifts: dict[int, list[SeriesShift]] = {}
        for p in range(world.providers):
            mood = rng.gauss(0, MOOD) + fleet + stray.get(p, 0.0)
            for (kind, n), sd in noise.items():
                now, values = level(mood + (slower[p] if kind == "training" else 0.0), sd)
                old, others = before[p, (kind, n)]
                squares = sum((v - now) ** 2 for v in values) + sum((v - old) ** 2 for v in others)
                df = 2 * (REPEATS - 1)
                error = standard_error(math.sqrt(squares / df), df, [sd], sd, (REPEATS, REPEATS))
                shifts.setdefault(p, []).append(SeriesShift(f"p{p}", f"{kind}{n}p{p}", f"{kind}{n}", kind, "c", now - old, error, WARN))
        yield look, shifts


def alarms(world: World, rng: random.Random) -> tuple[bool, bool]:
    """Whether it alarms as slower in its first campaign; in any."""
    first = ever = False
    for look, shifts in looks(world, rng):
        order = rng.sample(range(world.providers), world.providers)
        arrivals = [n for n, p in enumerate(order, 1) if p < world.touched]
        for arrived in {*arrivals[:: max(1, len(arrivals) // 3)], len(order)}:
            known = order[:arrived]
            for kind in KINDS:
                own = [
                    [s for p in known if (p < world.touched) is with_it for s in shifts[p] if s.kind == kind] for with_it in (True, False)
                ]
                effect = pooled_effect(own[0], own[1], look)
                slower = effect is not None and effect.verdict == "regressed"
                ever |= slower
                first |= slower and look == 1
    return first, ever


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200, help="worlds of each row with a step; of harmless rows five times as many")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    missed = []
    print("| fleet | touched | step | worlds | alarms in the first campaign | within three campaigns |")
    print("|---|---|---|---|---|---|")
    rows = [World(50, touched, step) for step in (0.0, 0.03, 0.05, 0.07) for touched in (2, 6, 20)]
    rows += [World(providers, 1, step) for providers in (1, 3) for step in (0.0, 0.05, 0.07, 0.1)]
    for world in rows:
        rng = random.Random(f"{given.seed} {world}")
        count = given.worlds * (1 if world.step else 5)
        seen = [alarms(world, rng) for _ in range(count)]
        first, ever = (sum(one[i] for one in seen) / count for i in (0, 1))
        step = f"{world.step:.0%}" if world.step else "harmless"
        print(f"| {world.providers} | {world.touched} | {step} | {count} | {first:.1%} | {ever:.1%} |", flush=True)
        if not world.step and ever > FALSE_ALARMS:
            missed.append(f"{world}: {ever:.1%} of harmless changes alarm; expected at most {FALSE_ALARMS:.0%}")
    print("\n".join(missed), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
