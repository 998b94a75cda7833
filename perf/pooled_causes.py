"""The pooled verdict on simulated fleets: how often a step tied to a driver is found, and a harmless driver change is called harmful.

Each world has providers that run 13 trainings and 7 inference workloads with three repeats in one campaign before the driver and three after
it. A campaign of a provider has a mood (0.5 %), each series one of its own (0.4 %), a repeat 0.2 to 3 % by workload. In a fifth of the worlds
the whole fleet moves by 4 % at the same time, as with a new harness; one untouched provider in 50 has a step of its own of 10 %. A step slows the trainings
of each touched provider by itself ± 15 % of itself. Campaigns arrive one provider after the other in random order, and arrivals of
touched providers, three or four of them a campaign, judge again, as reviews do.

The second table has clouds, whose regions share a mood of their own (0.5 %). Besides the driver, one cloud that has it can move for another reason,
and so can one that does not. A world counts as false blame where the driver is named and is harmless, or a cloud that did nothing: neither by itself
nor as the only one known with a driver that slows. Exits with 1 if more than 1 % of the worlds of a row blame falsely.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "include"))

from plumbline.analysis.drift.pooled import SeriesShift, cloud_effect, pooled_effect, standard_error

KINDS = {"training": 13, "inference": 7}
FEW = {"training": 5, "inference": 3}
LOOKS, REPEATS, WARN = 3, 3, 0.05
MOOD, OWN, NOISE = 0.005, 0.004, (0.002, 0.03)
FALSE_ALARMS = 0.01
SOME = (0.02, 0.08)


@dataclass(frozen=True)
class World:
    """`touched` of `providers` get the driver, which slows their trainings by `step`."""

    providers: int
    touched: int
    step: float


@dataclass(frozen=True)
class Clouds:
    """`clouds` of `regions` each; the driver comes to `touched_regions` of the first `touched` clouds. `move`: of the cloud `mover`, of all its numbers and
    for another reason; a pair is drawn evenly between, in either direction."""

    clouds: int
    regions: int
    touched: int
    touched_regions: int
    step: float
    move: tuple[float, float] = (0.0, 0.0)
    mover: int = 0

    @property
    def truth(self) -> str:
        moved = (
            f"cloud {'with' if self.mover < self.touched else 'without'} it moves {self.move[0]:.0%} to {self.move[1]:.0%}"
            if any(self.move)
            else ""
        )
        return "; ".join(filter(None, (f"driver {self.step:.0%}" if self.step else "driver harmless", moved)))


def looks(world: World, rng: random.Random, kinds: Mapping[str, int] = KINDS) -> Iterator[tuple[int, dict[int, list[SeriesShift]]]]:
    """Each campaign after the driver: its number, and provider → shifts against the campaign before."""
    fleet = rng.choice((-0.04, 0.04)) if rng.random() < 0.2 else 0.0
    noise = {(kind, n): math.exp(rng.uniform(*map(math.log, NOISE))) for kind, count in kinds.items() for n in range(count)}
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


def blames(world: Clouds, rng: random.Random) -> tuple[bool, bool, bool]:
    """Whether something was blamed falsely within three campaigns; whether the true cause was found; whether the driver's last verdict was open."""
    providers = world.clouds * world.regions
    cloud = {p: p // world.regions for p in range(providers)}
    has = {p for p in cloud if cloud[p] < world.touched and p % world.regions < world.touched_regions}
    move = rng.uniform(*world.move) * rng.choice((-1, 1)) if any(world.move) else 0.0
    false = found = untold = False
    moods = {c: rng.gauss(0, MOOD) for c in range(world.clouds)}
    for look, shifts in looks(World(providers, 0, 0.0), rng, FEW):
        now = {c: rng.gauss(0, MOOD) - moods[c] + (move if c == world.mover else 0.0) for c in moods}
        slower = {p: math.log1p(world.step * rng.gauss(1, 0.15)) if p in has else 0.0 for p in cloud}
        for p, own in shifts.items():
            shifts[p] = [
                replace(s, shift=s.shift + now[cloud[p]] + (slower[p] if s.kind == "training" else 0.0), group=f"c{cloud[p]}") for s in own
            ]
        order = rng.sample(range(providers), providers)
        for arrived in (providers // 2, providers):
            known = {cloud[p] for p in order[:arrived] if p in has}
            for kind in FEW:
                seen = [[s for s in shifts[p] if s.kind == kind] for p in order[:arrived]]
                verdict, blamed = judge([s for own in seen for s in own], {f"p{p}" for p in has}, look)
                true_driver = world.step > 0 and kind == "training"
                driver = verdict in ("regressed", "improved")
                false |= driver and not true_driver
                found |= driver and true_driver
                if arrived == providers and kind == "training":
                    untold = verdict in (None, "insufficient_data")
                for c in blamed:
                    true_cloud = (c == world.mover and move != 0) or (true_driver and known == {c})
                    found |= true_cloud
                    false |= not true_cloud
    return false, found, untold


def judge(shifts: Sequence[SeriesShift], has: set[str], look: int) -> tuple[str | None, list[int]]:
    """As reviews do: the verdict on the driver, and if it is not blamed the clouds that are."""
    touched, untouched = ([s for s in shifts if (s.provider in has) is with_it] for with_it in (True, False))
    effect = pooled_effect(touched, untouched, look)
    if effect is not None and effect.verdict in ("regressed", "improved"):
        return effect.verdict, []
    regions: dict[str, set[str]] = {}
    for s in shifts:
        regions.setdefault(s.group, set()).add(s.provider)
    several = sorted(c for c, own in regions.items() if len(own) > 1)
    changed = {s.group for s in touched}
    blamed = []
    for c in several:
        own, others = ([s for s in shifts if (s.group == c) is mine] for mine in (True, False))
        one = cloud_effect(own, others, changed - {c}, changed - {c} if c in changed else (), look, len(several))
        if one is not None and one.verdict in ("regressed", "improved"):
            blamed.append(int(c[1:]))
    return effect.verdict if effect is not None else None, blamed


CLOUDS = (
    Clouds(8, 6, 1, 6, 0.0),
    Clouds(8, 6, 1, 6, 0.0, SOME),
    Clouds(8, 6, 3, 6, 0.0),
    Clouds(8, 6, 3, 6, 0.0, SOME),
    Clouds(8, 6, 3, 6, 0.0, SOME, 7),
    Clouds(8, 6, 1, 6, 0.07),
    Clouds(8, 6, 3, 6, 0.05),
    Clouds(8, 6, 3, 6, 0.07),
    Clouds(8, 6, 3, 6, 0.07, SOME, 7),
    Clouds(8, 6, 6, 3, 0.05),
    Clouds(4, 3, 2, 3, 0.0, SOME),
    Clouds(4, 3, 2, 3, 0.07),
    Clouds(2, 6, 1, 6, 0.0, SOME),
    Clouds(2, 6, 1, 6, 0.07),
    Clouds(2, 1, 1, 1, 0.0, SOME),
    Clouds(2, 1, 1, 1, 0.07),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=200, help="worlds of each row with a step; of harmless rows five times as many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clouds-only", action="store_true", help="the table of fleets with clouds alone")
    given = parser.parse_args()
    missed = []
    print("| fleet | touched | step | worlds | alarms in the first campaign | within three campaigns |")
    print("|---|---|---|---|---|---|")
    rows = [] if given.clouds_only else [World(50, touched, step) for step in (0.0, 0.03, 0.05, 0.07) for touched in (2, 6, 20)]
    rows += [] if given.clouds_only else [World(providers, 1, step) for providers in (1, 3) for step in (0.0, 0.05, 0.07, 0.1)]
    for world in rows:
        rng = random.Random(f"{given.seed} {world}")
        count = given.worlds * (1 if world.step else 5)
        seen = [alarms(world, rng) for _ in range(count)]
        first, ever = (sum(one[i] for one in seen) / count for i in (0, 1))
        step = f"{world.step:.0%}" if world.step else "harmless"
        print(f"| {world.providers} | {world.touched} | {step} | {count} | {first:.1%} | {ever:.1%} |", flush=True)
        if not world.step and ever > FALSE_ALARMS:
            missed.append(f"{world}: {ever:.1%} of harmless changes alarm; expected at most {FALSE_ALARMS:.0%}")
    print("\n| clouds × regions | with the driver | truth | worlds | false blame | true cause found | driver: cannot tell |")
    print("|---|---|---|---|---|---|---|")
    for fleet in CLOUDS:
        rng = random.Random(f"{given.seed} {fleet}")
        count = 2 * given.worlds
        judged = [blames(fleet, rng) for _ in range(count)]
        false, found, untold = (sum(one[i] for one in judged) / count for i in range(3))
        has = f"{fleet.touched_regions} regions of {fleet.touched}"
        found_text = f"{found:.1%}" if fleet.step or any(fleet.move) else ""
        print(
            f"| {fleet.clouds} × {fleet.regions} | {has} | {fleet.truth} | {count} | {false:.1%} | {found_text} | {untold:.1%} |",
            flush=True,
        )
        if false > FALSE_ALARMS:
            missed.append(f"{fleet}: {false:.1%} blame falsely; expected at most {FALSE_ALARMS:.0%}")
    print("\n".join(missed), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
