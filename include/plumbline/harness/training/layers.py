"""What is done to a model's repeated layers before it is trained: recomputing activations, compiling. Parameters keep their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

from torch import nn


def recompute(layers: Sequence[nn.Module]) -> None:
    """Each layer keeps its input alone and computes its activations again in backward."""
    for layer in layers:
        layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    # Imported here: most trainings keep their activations.
    from torch.utils.checkpoint import checkpoint

    # A function of its own: the compiler passes over a `partial` of `checkpoint` and compiles nothing.
    def again(*inputs: Any, **named: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return again


def compile_each(layers: Sequence[nn.Module], cache: Path) -> CompileClock:
    """Compile layer by layer, each at its first use: alike layers share their code, which the whole model would not.

    What was compiled is kept in `cache` (unless TORCHINDUCTOR_CACHE_DIR names another folder): the machine's own, which torch would use,
    would make the second trial start faster than the first.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    clock = CompileClock()
    for layer in layers:
        layer.compile()
    return clock


class CompileClock:
    """How long the compiler has been at work in this process."""

    def __init__(self) -> None:
        # Imported here: the compiler takes seconds to import.
        from torch._dynamo.callback import callback_handler

        self._began_ns = 0
        self._spent_ns = 0
        # Newer releases pass what is compiled, 2.7 passes nothing.
        callback_handler.register_start_callback(self._start)
        callback_handler.register_end_callback(self._end)

    def _start(self, *_: Any) -> None:
        self._began_ns = monotonic_ns()

    def _end(self, *_: Any) -> None:
        self._spent_ns += monotonic_ns() - self._began_ns

    def taken(self) -> int:
        """Nanoseconds since it was last asked."""
        spent, self._spent_ns = self._spent_ns, 0
        return spent
