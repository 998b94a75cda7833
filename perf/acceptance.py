"""False returns and power of the acceptance of nodes: `python perf/acceptance.py [--fleets N]`

Fleets with 1 % noise in four figures. `at once`: healthy fleets of which a node goes back at the first look; `two looks`: also those of which a node is
suspect in two independent measurements. `found`: fleets of which a node that is 10 % slow in one figure is suspect or goes back at the first look.
Exit status 1 if more than 1 % of healthy fleets return a node, in two looks.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "include"))

from plumbline.analysis.acceptance import MIN_EFFECT, clearance, critical_distance, false_alarms, spread

FIGURES, NOISE, SLOW, SIZES, BATCH = 4, 0.01, 0.10, (16, 32, 64, 128, 200), 500
_Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
NOISES: dict[str, _Draw] = {
    "normal": lambda r, s: r.standard_normal(s),
    **{f"Student t({df})": (lambda r, s, df=df: r.standard_t(df, s)) for df in (4, 5, 6, 8)},  # type: ignore[misc]
    "lognormal(0.5)": lambda r, s: r.lognormal(0, 0.5, s) / 0.604,
    "gamma(2)": lambda r, s: r.gamma(2, size=s) / math.sqrt(2),
}


def look(worse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in doubt and nodes that go back at once, of [fleets, figures, nodes] logarithms."""
    n = worse.shape[-1]
    distance = worse - np.median(worse, axis=-1, keepdims=True)
    scale = np.maximum(spread(distance)[..., None], 0.001)
    limit = np.maximum(critical_distance(n, false_alarms(n) / FIGURES)[0] * scale, -math.log1p(-MIN_EFFECT))
    ordered = np.sort(distance, axis=-1)
    tail = np.maximum(np.maximum(ordered[..., -2:-1], -ordered[..., :1]), scale)
    doubt = distance > limit
    return doubt, doubt & (distance > clearance(n, false_alarms(n) / FIGURES) * tail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=10_000)
    fleets, worst = parser.parse_args().fleets, 0.0
    print("| noise | nodes | at once | two looks | found |\n|---|---|---|---|---|")
    for name, draw in NOISES.items():
        for n in SIZES:
            rng, counts, done = np.random.default_rng(n), np.zeros(3), 0
            while done < fleets:
                size = (min(BATCH, fleets - done), FIGURES, n)
                done += size[0]
                first, second = NOISE * draw(rng, size), NOISE * draw(rng, size)
                (doubt, clear), (again, clear_again) = look(first), look(second)
                once = clear.any(axis=(1, 2))
                first[:, 0, 0] -= math.log1p(-SLOW)
                found = look(first)[0][:, 0, 0]
                counts += once.sum(), (once | clear_again.any(axis=(1, 2)) | (doubt & again).any(axis=(1, 2))).sum(), found.sum()
            shares = counts / fleets
            worst = max(worst, float(shares[1]))
            print(f"| {name} | {n} | {shares[0]:.2%} | {shares[1]:.2%} | {shares[2]:.1%} |", flush=True)
    return int(worst > 0.01)


if __name__ == "__main__":
    sys.exit(main())
