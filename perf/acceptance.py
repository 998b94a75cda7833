"""False returns and power of the acceptance of nodes: `python perf/acceptance.py [--fleets N] [--mlperf FILE]`

Fleets with 1 % noise in four figures. `suspect`: healthy fleets of which a node is suspect at the first look and has to be measured again; `returned`: those
of which one is suspect in two independent measurements, which sends it back. `found`: fleets of which a node that is 10 % slow in one figure is suspect.
`--mlperf`: a CSV of MLPerf Training runs (submitter, system_id, benchmark, global_batch, nodes, round, minutes_to_train, status) adds real noise: each figure
draws from the differences of a benchmark's runs from the median of their system, scaled to 1 %. Exit status 1 if more than 1 % of healthy fleets return a node.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.analysis.node_acceptance import MIN_EFFECT, critical_distance, false_alarms, spread

FIGURES, NOISE, SLOW, SIZES, BATCH = 4, 0.01, 0.10, (16, 32, 64, 128, 200), 500
_Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
NOISES: dict[str, _Draw] = {
    "normal": lambda r, s: r.standard_normal(s),
    **{f"Student t({df})": (lambda r, s, df=df: r.standard_t(df, s)) for df in (4, 5, 6, 8)},  # type: ignore[misc]
    "lognormal(0.5)": lambda r, s: r.lognormal(0, 0.5, s) / 0.604,
    "gamma(2)": lambda r, s: r.gamma(2, size=s) / math.sqrt(2),
}


MLPERF = ("round", "submitter", "system_id", "benchmark", "global_batch", "nodes", "minutes_to_train", "status")
FEWEST_RUNS, FEWEST_OF_BENCHMARK = 5, 100


def mlperf_noise(file: Path) -> _Draw:
    """Noise of unit deviation from the runs of the file. Raises ValueError if it has not the columns or too few runs."""
    with file.open(newline="") as opened:
        rows = csv.DictReader(opened)
        if missing := [name for name in MLPERF if name not in (rows.fieldnames or ())]:
            raise ValueError(f"{file}: no column {', '.join(missing)}; expected MLPerf Training runs with {', '.join(MLPERF)}")
        runs: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in rows:
            if row["status"] == "success" and float(row["minutes_to_train"] or 0) > 0:
                runs[tuple(row[name] for name in MLPERF[:6])].append(math.log(float(row["minutes_to_train"])))
    pools: dict[str, list[np.ndarray]] = defaultdict(list)
    for key, own in runs.items():
        if len(own) >= FEWEST_RUNS:
            pools[key[3]].append((np.array(own) - np.median(own)) * math.sqrt(len(own) / (len(own) - 1)))
    known = [pool / pool.std() for pool in map(np.concatenate, pools.values()) if len(pool) >= FEWEST_OF_BENCHMARK]
    if not known:
        raise ValueError(f"{file}: no benchmark with {FEWEST_OF_BENCHMARK} runs in sets of {FEWEST_RUNS}; expected MLPerf Training runs")

    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        fleets, figures, nodes = size
        which = rng.integers(len(known), size=(fleets, figures))
        return np.stack([[rng.choice(known[which[f, k]], nodes) for k in range(figures)] for f in range(fleets)])

    return draw


def look(worse: np.ndarray) -> np.ndarray:
    """Nodes in doubt, of [fleets, figures, nodes] logarithms."""
    n = worse.shape[-1]
    distance = worse - np.median(worse, axis=-1, keepdims=True)
    scale = np.maximum(spread(distance)[..., None], 0.001)
    limit = np.maximum(critical_distance(n, false_alarms(n) / FIGURES)[0] * scale, -math.log1p(-MIN_EFFECT))
    return np.asarray(distance > limit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=10_000)
    parser.add_argument("--mlperf", type=Path, help="real noise: a CSV of MLPerf Training runs")
    parser.add_argument("--noise", action="append", choices=[*NOISES, "MLPerf"], help="these rows only")
    given = parser.parse_args()
    fleets, worst = given.fleets, 0.0
    noises = NOISES | ({"MLPerf": mlperf_noise(given.mlperf)} if given.mlperf is not None else {})
    noises = {name: draw for name, draw in noises.items() if given.noise is None or name in given.noise}
    print("| noise | nodes | suspect | returned | found |\n|---|---|---|---|---|")
    for name, draw in noises.items():
        for n in SIZES:
            rng, counts, done = np.random.default_rng(n), np.zeros(3), 0
            while done < fleets:
                size = (min(BATCH, fleets - done), FIGURES, n)
                done += size[0]
                first, second = NOISE * draw(rng, size), NOISE * draw(rng, size)
                doubt, again = look(first), look(second)
                first[:, 0, 0] -= math.log1p(-SLOW)
                found = look(first)[:, 0, 0]
                counts += doubt.any(axis=(1, 2)).sum(), (doubt & again).any(axis=(1, 2)).sum(), found.sum()
            shares = counts / fleets
            worst = max(worst, float(shares[1]))
            print(f"| {name} | {n} | {shares[0]:.2%} | {shares[1]:.2%} | {shares[2]:.1%} |", flush=True)
    return int(worst > 0.01)


if __name__ == "__main__":
    sys.exit(main())
