"""The causal LM with nothing computed: each sequence gets its token at each step as before, so that what is measured is the path around the model.

It takes the place of `transformer.py` in Triton's model repository, which keeps the computing one as `computing_transformer.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
from computing_transformer import Transformer as Computing  # type: ignore[import-not-found]
from computing_transformer import close_up

__all__ = ["Transformer", "close_up", "seeded"]


class Transformer(Computing):  # type: ignore[misc]
    """Rows, prompts and lengths are kept as by the computing one; every token is 0."""

    def step(self, budget: int) -> Tensor:
        """As of the computing one: int64 [generating]."""
        n, chunks = self.generating, self._chunks(budget)
        self._advance(n, chunks)
        tokens: Tensor = self.last[: self.generating].clone()
        return tokens


def seeded(seed: int, device: str = "cpu", **shape: int) -> Transformer:
    """Of one small layer, which holds each row's place and is not computed. `seed` is not used: no weight is read."""
    small = shape | {"layers": 1, "width": shape["heads"], "vocabulary": 1}
    model: Transformer = Transformer(**small).eval().to(device)
    return model
