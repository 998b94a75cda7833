"""When a rank saves and loads, and what its log says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from plumbline.harness.training.checkpoint import whole
from plumbline.harness.training.checkpoint.folder import NothingToResume, discard_drafts, name_of, steps_in
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.checkpoint.writing import Pause, dropped_from_page_cache
from plumbline.harness.training.plan import WorkerSpec
from plumbline.harness.training.steplog import StepLog

if TYPE_CHECKING:
    from plumbline.harness.training.checkpoint.sharded import Ranks


class Keeper:
    """Saves one rank's state, and loads it.

    `ranks` None: the process holds the whole state, and waits while it is written to one file.
    """

    def __init__(self, spec: WorkerSpec, log: StepLog, ranks: Ranks | None) -> None:
        self._spec, self._log, self._folder = spec, log, Path(spec.checkpoint_folder)
        self._retain = frozenset(spec.checkpoint_retain)
        self._sharded: Any = None
        if ranks is not None:
            # Imported here: alone and in step, a process would pay for it with a slower start.
            from plumbline.harness.training.checkpoint.sharded import Sharded

            self._sharded = Sharded(self._folder, ranks, keep=spec.checkpoint_keep, retain=self._retain)
        self._beside = spec.checkpoint_mode == "async"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint") if self._beside else None
        self._under_way: Future[None] | None = None

    def save(self, step: int, state: TrainingState, *, at_end: bool) -> None:
        """The checkpoint after `step` steps; in the log once it is durable. A save that is under way is waited for first.

        OSError, such as a full disk, of this save or, in mode async, of the one before.
        """
        began = monotonic_ns()
        self.wait()
        pause = self._pause(step)
        if self._sharded is None:
            saved = whole.save(self._folder, step, state.taken(), keep=self._spec.checkpoint_keep, retain=self._retain, pause=pause)
            self._say(step, saved.bytes, saved.seconds, monotonic_ns() - began, at_end)
            return
        finish: Callable[[], tuple[int, float]] = self._sharded.begin(step, state.taken(), beside=self._beside, pause=pause)
        if self._thread is None:
            size, seconds = finish()
            self._say(step, size, seconds, monotonic_ns() - began, at_end)
            return
        blocking = monotonic_ns() - began
        self._under_way = self._thread.submit(lambda: self._say(step, *finish(), blocking, at_end))

    def check(self) -> None:
        """Raise what a save beside the training died of, as soon as it has."""
        if self._under_way is not None and self._under_way.done():
            self.wait()

    def wait(self) -> None:
        """Return when no save is under way."""
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def load(self, state: TrainingState, device: str) -> tuple[int, tuple[str, ...]]:
        """Go on from the newest valid checkpoint: (steps that were done, why newer ones were passed over). NothingToResume.

        `state` must not have done a step if it is sharded or was written beside the training.
        """
        if self._sharded is not None:
            restored = self._sharded.load(state.primed())
            state.put(restored.state)
            return restored.step, restored.rejected
        discard_drafts(self._folder)
        loaded = whole.load_newest(self._folder, device)
        if loaded is None:
            raise NothingToResume(f"no valid checkpoint in {self._folder.name}")
        state.put(loaded.state)
        return loaded.step, loaded.rejected

    def forgotten(self) -> bool:
        """Have the kernel forget the newest checkpoint's files, so that the next load reads the disk. Whether it did."""
        path = self._folder / name_of(steps_in(self._folder)[0])
        return dropped_from_page_cache(file for file in path.iterdir() if file.is_file())

    def everywhere(self, here: bool) -> bool:
        """Whether something is so on all ranks that load together."""
        return here if self._sharded is None else bool(self._sharded.everywhere(here))

    def _say(self, step: int, size: int, seconds: float, blocking: int, at_end: bool) -> None:
        self._log.event("checkpoint", step=step, save_s=seconds, blocking=blocking, bytes=size, closing=at_end)

    def _pause(self, step: int) -> Pause | None:
        hold = self._spec.hold
        if hold is None or (hold.step + 1, hold.inside) != (step, "checkpoint"):
            return None
        return Pause(lambda: self._hold(hold.step))

    def _hold(self, step: int) -> None:
        """Say that the checkpoint is half written and wait for the kill: it then falls into the middle of it however fast the disk is."""
        self._log.event("holding", step=step)
        threading.Event().wait()
