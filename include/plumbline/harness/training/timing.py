"""When the stages of each step ended, on the device's own clock, without making a GPU wait for the program."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any, Protocol

import torch

from plumbline.harness.training.stages import StageName

_LAG = 2
"""Steps that a GPU may be behind the program before the program waits for it."""


class Timer(Protocol):
    """One step after the other: begin, mark each stage at its end, end. The line of a step comes once the device has done it."""

    def begin(self, step: int) -> None:
        """The step starts now."""

    def mark(self, stage: StageName) -> None:
        """What was done since the last mark was this stage; a stage that comes again adds up."""

    def move(self, source: StageName, target: StageName, nanoseconds: Callable[[], int]) -> None:
        """Part of one stage was another one; how much is asked once the device has done the step."""

    def end(self, loss: torch.Tensor, skipped: torch.Tensor | None = None) -> list[dict[str, Any]]:
        """The step ends here with this loss (scalar). Lines of steps that are known to be done, as `steplog` takes them.

        `skipped` (scalar bool): whether the optimizer left the weights as they were; None where it never does.
        """

    def drain(self) -> list[dict[str, Any]]:
        """Lines of all steps that were begun; waits for the device. What follows is no part of a step."""


def timer_for(device: torch.device) -> Timer:
    """The timer of a device."""
    return DeviceTimer() if device.type == "cuda" else HostTimer()


class HostTimer:
    """For a CPU, which is done when the call returns.

    A step starts where the one before it ended, as on a GPU: what the loop does between two steps is part of the second, and of none of its
    stages. After `drain` the next step starts at its `begin`.
    """

    def __init__(self) -> None:
        self._previous: int | None = None

    def begin(self, step: int) -> None:
        self._step, self._spent = step, dict[StageName, int]()
        self._last = monotonic_ns()
        self._start = self._last if self._previous is None else self._previous

    def mark(self, stage: StageName) -> None:
        now = monotonic_ns()
        self._spent[stage] = self._spent.get(stage, 0) + now - self._last
        self._last = now

    def move(self, source: StageName, target: StageName, nanoseconds: Callable[[], int]) -> None:
        _move(self._spent, source, target, nanoseconds())

    def end(self, loss: torch.Tensor, skipped: torch.Tensor | None = None) -> list[dict[str, Any]]:
        value, left_out = loss.item(), skipped is not None and bool(skipped.item())
        self.mark("optimizer")
        self._previous = self._last
        return [_line(self._step, self._start, self._last, self._spent, value, left_out)]

    def drain(self) -> list[dict[str, Any]]:
        self._previous = None
        return []


@dataclass
class _Pending:
    """A step that the device may not have done yet: its events in their order, each with the stage that it ended (None: the start)."""

    step: int
    marks: list[tuple[StageName | None, torch.cuda.Event]]
    moved: list[tuple[StageName, StageName, Callable[[], int]]] = field(default_factory=list)
    told: torch.Tensor | None = None


class DeviceTimer:
    """For a GPU: events are recorded into its stream and read when it has passed them.

    A step starts where the one before it ended: while the device is busy, the program's own work costs it nothing. After `drain` the
    next step starts at its `begin`.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Pending] = deque()
        self._previous: torch.cuda.Event | None = None
        self._read_ns = 0
        self._pins = torch.cuda.is_available()

    def begin(self, step: int) -> None:
        if self._previous is None:
            torch.cuda.synchronize()
            self._read_ns = monotonic_ns()
            self._previous = _event()
        self._now = _Pending(step, [(None, self._previous)])

    def mark(self, stage: StageName) -> None:
        self._now.marks.append((stage, _event()))

    def move(self, source: StageName, target: StageName, nanoseconds: Callable[[], int]) -> None:
        self._now.moved.append((source, target, nanoseconds))

    def end(self, loss: torch.Tensor, skipped: torch.Tensor | None = None) -> list[dict[str, Any]]:
        # To pinned memory behind the step's own work: asking for the value here would stop the device at each step.
        told = [loss.detach().float(), torch.zeros_like(loss, dtype=torch.float32) if skipped is None else skipped.float()]
        self._now.told = torch.empty(2, dtype=torch.float32, pin_memory=self._pins)
        self._now.told.copy_(torch.stack(told), non_blocking=True)
        self.mark("optimizer")
        self._previous = self._now.marks[-1][1]
        self._waiting.append(self._now)
        return self._done(_LAG)

    def drain(self) -> list[dict[str, Any]]:
        found = self._done(0)
        self._previous = None
        return found

    def _done(self, may_wait: int) -> list[dict[str, Any]]:
        found = []
        while self._waiting and (len(self._waiting) > may_wait or self._waiting[0].marks[-1][1].query()):  # type: ignore[no-untyped-call]
            found.append(self._read(self._waiting.popleft()))
        return found

    def _read(self, pending: _Pending) -> dict[str, Any]:
        pending.marks[-1][1].synchronize()
        spent: dict[StageName, int] = {}
        start = at = self._read_ns
        for (_, before), (stage, after) in zip(pending.marks, pending.marks[1:], strict=False):
            assert stage is not None
            # Each from the one before: an event's distance from the beginning of a long run has a coarse last digit (float32 ms).
            elapsed = int(before.elapsed_time(after) * 1e6)
            spent[stage] = spent.get(stage, 0) + elapsed
            at += elapsed
        for source, target, nanoseconds in pending.moved:
            _move(spent, source, target, nanoseconds())
        self._read_ns = at
        assert pending.told is not None
        loss, skipped = pending.told.tolist()
        return _line(pending.step, start, at, spent, loss, bool(skipped))


def _move(spent: dict[StageName, int], source: StageName, target: StageName, nanoseconds: int) -> None:
    spent[source] -= nanoseconds
    spent[target] = spent.get(target, 0) + nanoseconds


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _line(step: int, start: int, end: int, spent: dict[StageName, int], loss: float, skipped: bool) -> dict[str, Any]:
    told = {"event": "step", "ns": end, "step": step, "start": start, "stages": spent, "loss": loss}
    return {**told, "skipped": True} if skipped else told
