"""Where a series may have changed: `ruptures` KernelCPD with the radial basis kernel, penalised lightly; the pruning comes after it."""

from __future__ import annotations

import math

import numpy as np
from ruptures import KernelCPD
from ruptures.exceptions import BadSegmentationParameters

from plumbline.drift.series.points import Array, scatter

SMALLEST = 3
"""Points in the shortest segment: two alike are a coincidence of spikes."""
_PENALTY = 0.4  # × ln n: half of what bare KernelCPD needs to stay calm, because every boundary is judged afterwards
_WINDOW = 250
"""Points searched at once. The search is quadratic where nothing changes, and a change needs no more neighbours than this to be seen."""
_SAMPLE = 500
"""Points from which the kernel's width is learned; all pairs of 10,000 points would take gigabytes."""


def candidates(y: Array) -> list[int]:
    """Ascending boundaries (first point after), at least `SMALLEST` points apart and away from both ends."""
    z = (y - y[0]) / scatter(y)
    penalty, width = _PENALTY * math.log(len(y)), _kernel_width(z)
    found: list[int] = []
    begin = 0
    while True:
        end = min(begin + _WINDOW, len(z))
        try:
            search = KernelCPD(kernel="rbf", min_size=SMALLEST, params={"gamma": width}).fit(z[begin:end].reshape(-1, 1))
            inside = [begin + int(b) for b in search.predict(pen=penalty)[:-1]]
        except BadSegmentationParameters:  # the last window is too short to be cut
            inside = []
        if end == len(z):
            return found + inside
        # The next window begins in the middle of this one, on a boundary if there is one: what lies near a window's end is seen again.
        half = begin + _WINDOW // 2
        kept = [b for b in inside if b <= half]
        found += kept
        begin = kept[-1] if kept and kept[-1] > half - SMALLEST else half
        if found and found[-1] < begin < found[-1] + SMALLEST:
            begin = found[-1]


def _kernel_width(z: Array) -> float:
    """One over the median squared distance of pairs of points; 1 if most points are alike."""
    some = z[np.linspace(0, len(z) - 1, min(len(z), _SAMPLE)).astype(int)]
    squares = np.subtract.outer(some, some)[np.triu_indices(len(some), 1)] ** 2
    middle = float(np.median(squares))
    return 1 / middle if middle > 0 else 1.0
