"""Batches on their way to the device."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol

import torch

from plumbline.harness.training.learners import Learner, Samples

_AHEAD = 2
"""Batches that wait in pinned memory: one that is copied, one that is next."""
_LOOK_S = 0.1


class Feed(Protocol):
    """The batches of some steps in their order, as a context."""

    def __enter__(self) -> Feed: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def next(self) -> Samples:
        """The next batch in the host's memory, once it is there; what its making raised, if it failed."""

    def moved(self, samples: Samples) -> Samples:
        """The batch on the device, or on its way there ahead of all that is asked of the device from now on."""


def feed_for(learner: Learner, device: torch.device, steps: Iterable[int]) -> Feed:
    """A GPU's batches are made ahead by a thread; on a CPU that thread would take the time of the training itself."""
    if device.type != "cuda":
        return InTurn(learner.batch, steps)
    return Ahead(learner.batch, steps, device)


class InTurn:
    """Makes each batch when it is asked for."""

    def __init__(self, batch: Callable[[int], Samples], steps: Iterable[int]) -> None:
        self._batch, self._steps = batch, iter(steps)

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def next(self) -> Samples:
        return self._batch(next(self._steps))

    def moved(self, samples: Samples) -> Samples:
        return samples


class Ahead:
    """Makes batches in a thread, in memory that the device reads by itself (`pin`), and never more than two ahead."""

    def __init__(
        self,
        batch: Callable[[int], Samples],
        steps: Iterable[int],
        device: torch.device,
        pin: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.pin_memory,
    ) -> None:
        self._batch, self._steps, self._device, self._pin = batch, steps, device, pin
        self._made: queue.Queue[Samples | BaseException] = queue.Queue(_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)

    def __enter__(self) -> Ahead:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def next(self) -> Samples:
        made = self._made.get()
        if isinstance(made, BaseException):
            raise made
        return made

    def moved(self, samples: Samples) -> Samples:
        return tuple(part.to(self._device, non_blocking=True) for part in samples)

    def _make(self) -> None:
        try:
            if self._device.type == "cuda":
                torch.cuda.set_device(self._device)  # each thread has a current one of its own
            for step in self._steps:
                if not self._hand_over(tuple(self._pin(part) for part in self._batch(step))):
                    return
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asks for the batch
            self._hand_over(error)

    def _hand_over(self, made: Samples | BaseException) -> bool:
        while not self._stop.is_set():
            try:
                self._made.put(made, timeout=_LOOK_S)
                return True
            except queue.Full:
                continue
        return False
