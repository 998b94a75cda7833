"""Pairs of texts that belong together, out of a token file: two crops of the same stretch, which have half of it or more in common.

That is how encoders are trained without labels: what two crops share is what they are about.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plumbline.harness.training.dataset.tokens import Batches
from plumbline.harness.training.plan import DataOrders


class Pairs:
    """Pairs by step number."""

    def __init__(self, data: DataOrders, *, pairs: int, sequence: int, seed: int, replica: int = 0, replicas: int = 1) -> None:
        """`pairs` a step of `sequence` tokens each, out of this replica's stretch of the file. DamagedData if it has another size."""
        self._stretches = Batches(data, sequences=pairs, sequence=sequence + sequence // 2, seed=seed, replica=replica, replicas=replicas)
        self._pairs, self._sequence = pairs, sequence

    def of(self, step: int) -> npt.NDArray[np.int64]:
        """Token ids (pairs, 2, sequence): the second text begins after the first, and before its second half does."""
        stretches = self._stretches.of(step)
        shift = self._stretches.random(step, stream=1).integers(1, max(self._sequence // 2, 1), size=self._pairs, endpoint=True)
        starts = np.stack([np.zeros_like(shift), shift], axis=1)
        columns = starts[:, :, None] + np.arange(self._sequence)
        crops: npt.NDArray[np.int64] = stretches[np.arange(self._pairs)[:, None, None], columns]
        return crops
