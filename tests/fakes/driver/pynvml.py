"""NVIDIA's package in a process of its own, for a harness that a test starts: this folder comes first on its PYTHONPATH.

FAKE_WATTS: what each GPU draws, such as "200 150". FAKE_NEW_ERRORS: uncorrected errors that each makes after its counters were first read.
"""

from __future__ import annotations

import os
import sys
from itertools import product

from tests.fakes.nvml import Card, Nvml


class Growing(dict[tuple[int, int], int]):
    """Counters of ECC errors: 0 at the first reading, `new` ever after."""

    def __init__(self, new: int) -> None:
        super().__init__(dict.fromkeys(product((0, 1), repeat=2), 0))
        self._new, self._read = new, set[tuple[int, int]]()

    def __getitem__(self, key: tuple[int, int]) -> int:
        if key not in self._read:
            self._read.add(key)
            return 0
        return self._new


_NEW = int(os.environ.get("FAKE_NEW_ERRORS", "0"))
sys.modules[__name__] = Nvml(*(Card(watts=float(watts), ecc=Growing(_NEW)) for watts in os.environ["FAKE_WATTS"].split()))  # type: ignore[assignment]
