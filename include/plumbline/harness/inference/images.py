"""Images as a vision model gets them: cut into patches of 16 by 16 pixels, three bytes each. What a patch shows follows from its token id, so
that prompts, their lengths and their uniqueness are those of every other model. What a model computes does not depend on what it sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.models import PATCH_BYTES

_MIXED = np.arange(PATCH_BYTES, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)


def patches_of(ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The patches [tokens] of an image as bytes of its pixels, [tokens, PATCH_BYTES]: evenly distributed, and the same on every machine."""
    mixed = ids.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + _MIXED
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    shown: NDArray[np.uint8] = (mixed >> np.uint64(56)).astype(np.uint8)
    return shown
