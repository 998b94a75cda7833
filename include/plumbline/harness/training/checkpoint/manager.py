"""When a rank saves and loads its state, and what its log says of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

from plumbline.harness.training.checkpoint.folder import checkpoint_name, checkpoint_steps, drop_from_page_cache
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.checkpoint.store import CheckpointRanks, CheckpointStore, LoadedCheckpoint, SavedCheckpoint
from plumbline.harness.training.worker_protocol import StepLog, WorkerSpec


class CheckpointManager:
    """Saves one rank's state, and loads it."""

    def __init__(self, spec: WorkerSpec, log: StepLog, ranks: CheckpointRanks) -> None:
        self._spec, self._log, self._ranks, self._folder = spec, log, ranks, Path(spec.checkpoint_folder)
        kind: type[CheckpointStore] = CheckpointStore
        if spec.sharded:
            # Imported here: a process that holds the whole state would pay for it with a slower start.
            from plumbline.harness.training.checkpoint.sharded import ShardedStore

            kind = ShardedStore
        self._store = kind(self._folder, ranks, keep=spec.checkpoint_keep, retain=frozenset(spec.checkpoint_retain))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint") if spec.checkpoint_mode == "async" else None
        self._under_way: Future[None] | None = None
        self._summed = (0, 0)
        """Begin and end (ns) of the newest checkpoint's checksum."""

    def save(self, step: int, state: TrainingState, *, at_end: bool) -> None:
        """The checkpoint after `step` steps; in the log once it is durable. A save that is under way is waited for first.

        OSError, such as a full disk, of this save or, in mode async, of the one before.
        """
        began = monotonic_ns()
        self.wait()
        # Of the wait for the save before, what its checksum took is this harness's own.
        waited = max(min(monotonic_ns(), self._summed[1]) - max(began, self._summed[0]), 0)
        finish = self._store.begin(step, state.taken(), beside=self._thread is not None, pause=self._pause(step))
        if self._thread is not None:
            paused_ns = monotonic_ns() - began
            self._under_way = self._thread.submit(lambda: self._log_save(step, finish(), paused_ns, waited, at_end))
        else:
            saved = finish()
            self._log_save(step, saved, monotonic_ns() - began, int(saved.checksum_s * 1e9), at_end)

    def check(self) -> None:
        """Raise what a save beside the training died of, as soon as it has."""
        if self._under_way is not None and self._under_way.done():
            self.wait()

    def wait(self) -> None:
        """Return when no save is under way."""
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def load(self, state: TrainingState, *, checksums: bool = True) -> LoadedCheckpoint:
        """Go on from the newest valid checkpoint. NothingToResume.

        `state` must not have done a step, or have forgotten it, if it is sharded. Without `checksums` the caller compares what was loaded.
        """
        live = state.state_after_first_step() if self._spec.sharded else {}
        loaded = self._store.load(live, state.device, checksums=checksums)
        state.put(loaded.state)
        return loaded

    def evict_from_page_cache(self) -> bool:
        """Evict the newest checkpoint's files from the page cache, so that the next load reads the disk. Whether that worked."""
        path = self._folder / checkpoint_name(checkpoint_steps(self._folder)[0])
        return drop_from_page_cache(file for file in path.iterdir() if file.is_file())

    def on_all_ranks(self, here: bool) -> bool:
        return all(self._ranks.gather(here))

    def _log_save(self, step: int, saved: SavedCheckpoint, paused_ns: int, summing: int, at_end: bool) -> None:
        """`paused_ns`: nanoseconds without training, `summing` of them for a checksum."""
        now = monotonic_ns()
        self._summed = now - int(saved.checksum_s * 1e9), now
        times = {"save_s": saved.seconds, "checksum_s": saved.checksum_s, "blocking": paused_ns - summing, "summing": summing}
        self._log.event("checkpoint", step=step, **times, bytes=saved.bytes, closing=at_end)

    def _pause(self, step: int) -> Callable[[], None] | None:
        hold = self._spec.hold
        if hold is None or (hold.step + 1, hold.inside) != (step, "checkpoint"):
            return None
        return lambda: self._hold(hold.step)

    def _hold(self, step: int) -> None:
        """Report the half-written checkpoint and wait for the kill, which then falls into its middle on any disk."""
        self._log.event("holding", step=step)
        threading.Event().wait()
