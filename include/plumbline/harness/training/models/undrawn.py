"""Weights that are not drawn: for a process that receives them from another rank, from a file or from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

_DRAWING = frozenset(
    ("normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "orthogonal_")
)


class Undrawn(TorchFunctionMode):
    """Inside, a module's parameters are made and left as the memory was: drawing those of a large model takes a minute on a CPU.

    Buffers are computed, and tied weights stay tied, which they would not on the meta device.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        target = args[0] if args else given.get("tensor")
        if isinstance(target, nn.Parameter) and getattr(func, "__name__", "") in _DRAWING:
            return target
        return func(*args, **given)
