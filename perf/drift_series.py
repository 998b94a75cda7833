"""Seeded, labelled series with the noise of real machines and inserted changes.

Noise   normal; Student-t with 3 degrees of freedom; autocorrelated (AR(1), 0.4); two modes 6 % apart that alternate; time of day
Change  none; spikes; one step; two steps; a ramp to the end
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

LENGTHS = (12, 24, 40, 60)
NOISES = ("normal", "heavy_tailed", "autocorrelated", "bimodal", "time_of_day")
KINDS = ("none", "spike", "step", "twostep", "ramp")
STABLE = ("none", "spike")


@dataclass(frozen=True)
class Labelled:
    """`changes`: index of the first point after each change; `margin`: allowed error of a detected index, in points."""

    values: list[float]
    changes: tuple[int, ...]
    kind: str
    margin: int


def labelled(each: int, seed: int) -> list[Labelled]:
    """`each` series of every length, noise and kind; half of them without a lasting change."""
    random = np.random.default_rng(seed)
    made = []
    for length, noise, kind in itertools.product(LENGTHS, NOISES, KINDS):
        # Two of five kinds are stable; half as many more of them make half of all series stable.
        made += [_series(random, length, noise, kind) for _ in range(each * 3 // 2 if kind in STABLE else each)]
    return made


def _series(random: np.random.Generator, length: int, noise: str, kind: str) -> Labelled:
    size = float(random.choice([0.03, 0.05, 0.08, 0.12, 0.2])) * float(random.choice([-1, 1]))
    y = _noise(random, length, noise, float(np.exp(random.uniform(np.log(0.001), np.log(0.03)))))
    edge = max(3, length // 8)
    changes: list[int] = []
    if kind == "spike":
        places = random.choice(length, size=max(1, length // 20), replace=False)
        y[places] += size * random.choice([-1, 1], size=len(places))
    elif kind != "none":
        begin = int(random.integers(edge, length // 2 if kind != "step" else length - edge - 1))
        changes = [begin]
        if kind == "step":
            y[begin:] += size
        elif kind == "ramp":
            y[begin:] += size * np.arange(1, length - begin + 1) / (length - begin)
        else:
            end = int(random.integers(begin + 3, length - 3))
            y[begin:end] += size
            changes = [begin, end]
    return Labelled((100 * np.exp(y)).tolist(), tuple(changes), kind, 2 if length < 24 else 3 if length < 40 else 5)


def _noise(random: np.random.Generator, n: int, kind: str, scale: float) -> np.ndarray:
    white = random.normal(0, scale, n)
    if kind == "heavy_tailed":
        return scale * random.standard_t(3, n)
    if kind == "autocorrelated":
        for i in range(1, n):
            white[i] += 0.4 * white[i - 1]
    if kind == "bimodal":
        white += 0.06 * (random.random(n) < 0.35)
    if kind == "time_of_day":
        white += 0.015 * np.sin(2 * np.pi * np.arange(n) / 3)
    return white
