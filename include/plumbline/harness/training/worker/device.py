"""Differences between CPU and GPU: step timers on the device's own clock, batches copied ahead, peak memory, the matmul rate."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch

from plumbline.harness.training.learners import Learner, Samples
from plumbline.harness.training.worker_protocol import StageName

_CPU_SHAPE, _CPU_SECONDS = (1024, 1024, 1024), 0.3


def matmul_flops(device: torch.device, precision: str) -> float:
    """The device's best rate (FLOP/s) of a matrix product at a training precision, as the hardware probe finds it: of a CPU over one shape."""
    # Imported here: it brings along what a start that is measured must not pay for.
    from plumbline.harness.probes import torch_probes

    if device.type == "cpu":
        return torch_probes.sustained_matmul(device, precision, _CPU_SHAPE, _CPU_SECONDS)[0]
    torch.cuda.empty_cache()  # what the training kept for its next step would be in the way
    return torch_probes.best_matmul(device, precision, torch_probes.GPU_SHAPES)[0]


def synchronizer(device: torch.device) -> Callable[[], None]:
    """A function that waits until the device has finished its work: kernels of a GPU run behind the program's back."""
    settle: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else _no_wait
    return settle


def _no_wait() -> None: ...


def peak_memory(device: torch.device) -> dict[str, int]:
    """Peak bytes of this process: of a GPU what its tensors took (`used`) and what torch's allocator held for them (`reserved`); of a CPU
    what was resident, the program and mapped data included. Empty where the system does not report it."""
    if device.type == "cuda":
        return {"used": torch.cuda.max_memory_allocated(device), "reserved": torch.cuda.max_memory_reserved(device)}
    try:
        # Not getrusage: its figure begins with what the process that started this one had.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    peak = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return {} if peak is None else {"used": int(peak) * 1024}


_MAX_STEPS_BEHIND = 2
"""Steps that a GPU may be behind the program before the program waits for it."""


def step_timer(device: torch.device) -> CpuStepTimer | GpuStepTimer:
    return GpuStepTimer() if device.type == "cuda" else CpuStepTimer()


class CpuStepTimer:
    """For a CPU, which is done when the call returns.

    A step starts where the one before it ended, as on a GPU: what the loop does between two steps is part of the second, and of none of its
    stages. After `drain` the next step starts at its `begin`. `end` and `drain` return lines of steps that are known to be done.
    """

    def __init__(self) -> None:
        self._previous: int | None = None

    def begin(self, step: int) -> None:
        self._step, self._spent = step, dict[StageName, int]()
        self._last = monotonic_ns()
        self._start = self._last if self._previous is None else self._previous

    def mark(self, stage: StageName) -> None:
        """Assign the time since the last mark to this stage; repeated stages add up."""
        now = monotonic_ns()
        self._spent[stage] = self._spent.get(stage, 0) + now - self._last
        self._last = now

    def move(self, source: StageName, target: StageName, nanoseconds: Callable[[], int]) -> None:
        """Part of one stage was another one; how much is asked once the device has done the step."""
        _move_time(self._spent, source, target, nanoseconds())

    def end(self, loss: torch.Tensor, skipped: torch.Tensor | None = None) -> list[dict[str, Any]]:
        """`skipped` (scalar bool): whether the optimizer left the weights as they were; None where it never does."""
        value, left_out = loss.item(), skipped is not None and bool(skipped.item())
        self.mark("optimizer")
        self._previous = self._last
        return [_step_line(self._step, self._start, self._last, self._spent, value, left_out)]

    def drain(self) -> list[dict[str, Any]]:
        self._previous = None
        return []


@dataclass
class _PendingStep:
    """A step that the device may not have done yet: its events in their order, each with the stage that it ended (None: the start)."""

    step: int
    marks: list[tuple[StageName | None, torch.cuda.Event]]
    moved: list[tuple[StageName, StageName, Callable[[], int]]] = field(default_factory=list)
    outcome: torch.Tensor | None = None


class GpuStepTimer:
    """For a GPU: events are recorded into its stream and read when it has passed them.

    A step starts where the one before it ended: while the device is busy, the program's own work costs it nothing. After `drain` the
    next step starts at its `begin`.
    """

    def __init__(self) -> None:
        self._waiting: deque[_PendingStep] = deque()
        self._previous: torch.cuda.Event | None = None
        self._read_ns = 0
        self._pins = torch.cuda.is_available()

    def begin(self, step: int) -> None:
        if self._previous is None:
            torch.cuda.synchronize()
            self._read_ns = monotonic_ns()
            self._previous = _record_event()
        self._now = _PendingStep(step, [(None, self._previous)])

    def mark(self, stage: StageName) -> None:
        self._now.marks.append((stage, _record_event()))

    def move(self, source: StageName, target: StageName, nanoseconds: Callable[[], int]) -> None:
        self._now.moved.append((source, target, nanoseconds))

    def end(self, loss: torch.Tensor, skipped: torch.Tensor | None = None) -> list[dict[str, Any]]:
        # To pinned memory behind the step's own work: asking for the value here would stop the device at each step.
        outcome = [loss.detach().float(), torch.zeros_like(loss, dtype=torch.float32) if skipped is None else skipped.float()]
        self._now.outcome = torch.empty(2, dtype=torch.float32, pin_memory=self._pins)
        self._now.outcome.copy_(torch.stack(outcome), non_blocking=True)
        self.mark("optimizer")
        self._previous = self._now.marks[-1][1]
        self._waiting.append(self._now)
        return self._done(_MAX_STEPS_BEHIND)

    def drain(self) -> list[dict[str, Any]]:
        steps = self._done(0)
        self._previous = None
        return steps

    def _done(self, may_wait: int) -> list[dict[str, Any]]:
        steps = []
        while self._waiting and (len(self._waiting) > may_wait or self._waiting[0].marks[-1][1].query()):  # type: ignore[no-untyped-call]
            steps.append(self._read(self._waiting.popleft()))
        return steps

    def _read(self, pending: _PendingStep) -> dict[str, Any]:
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
            _move_time(spent, source, target, nanoseconds())
        self._read_ns = at
        assert pending.outcome is not None
        loss, skipped = pending.outcome.tolist()
        return _step_line(pending.step, start, at, spent, loss, bool(skipped))


def _move_time(spent: dict[StageName, int], source: StageName, target: StageName, nanoseconds: int) -> None:
    spent[source] -= nanoseconds
    spent[target] = spent.get(target, 0) + nanoseconds


def _record_event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _step_line(step: int, start: int, end: int, spent: dict[StageName, int], loss: float, skipped: bool) -> dict[str, Any]:
    outcome = {"event": "step", "ns": end, "step": step, "start": start, "stages": spent, "loss": loss}
    return {**outcome, "skipped": True} if skipped else outcome


_PREFETCHED_BATCHES = 2
"""Batches that wait in pinned memory: one that is copied, one that is next."""
_POLL_S = 0.1


def batch_feed(learner: Learner, device: torch.device, steps: Iterable[int]) -> InlineFeed | PrefetchingFeed:
    """A GPU's batches are made ahead by a thread; on a CPU that thread would take the time of the training itself."""
    if device.type != "cuda":
        return InlineFeed(learner.batch, steps)
    return PrefetchingFeed(learner.batch, steps, device)


class InlineFeed:
    """Makes each batch when it is asked for."""

    def __init__(self, batch: Callable[[int], Samples], steps: Iterable[int]) -> None:
        self._batch, self._steps = batch, iter(steps)

    def __enter__(self) -> InlineFeed:
        return self

    def __exit__(self, *_: object) -> None: ...

    def next(self) -> Samples:
        """The next batch in the host's memory, once it is there; raises what its making raised."""
        return self._batch(next(self._steps))

    def moved(self, samples: Samples) -> Samples:
        return samples


class PrefetchingFeed:
    """Makes batches in a thread, in memory that the device reads by itself (`pin`), and never more than two ahead."""

    def __init__(
        self,
        batch: Callable[[int], Samples],
        steps: Iterable[int],
        device: torch.device,
        pin: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.pin_memory,
    ) -> None:
        self._batch, self._steps, self._device, self._pin = batch, steps, device, pin
        self._made: queue.Queue[Samples | BaseException] = queue.Queue(_PREFETCHED_BATCHES)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._make, name="batches", daemon=True)

    def __enter__(self) -> PrefetchingFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def next(self) -> Samples:
        samples = self._made.get()
        if isinstance(samples, BaseException):
            raise samples
        return samples

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

    def _hand_over(self, samples: Samples | BaseException) -> bool:
        while not self._stop.is_set():
            try:
                self._made.put(samples, timeout=_POLL_S)
                return True
            except queue.Full:
                continue
        return False
