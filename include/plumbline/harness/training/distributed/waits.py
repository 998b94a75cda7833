"""How long a backward waited for other ranks."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns

import torch


class Waits:
    """From the moment this rank's own gradients were all there to the end of the backward.

    On a GPU by events in the stream that computes: the program itself is elsewhere by then.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ready_ns: int | None = None
        self._ready_event: torch.cuda.Event | None = None

    def own_gradients_are_there(self) -> None:
        """So far; the last call of a backward counts."""
        if self._device.type == "cuda":
            self._ready_event = _recorded(torch.cuda.default_stream(self._device))
        else:
            self._ready_ns = monotonic_ns()

    def until_now(self) -> Callable[[], int] | None:
        """The wait (ns) of the backward that ends now, asked later; None if it waited for nobody."""
        if self._device.type == "cuda":
            ready, self._ready_event = self._ready_event, None
            if ready is None:
                return None
            end = _recorded(torch.cuda.default_stream(self._device))
            return lambda: int(ready.elapsed_time(end) * 1e6)
        begun, self._ready_ns = self._ready_ns, None
        if begun is None:
            return None
        waited = monotonic_ns() - begun
        return lambda: waited


def _recorded(stream: torch.cuda.Stream) -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event
