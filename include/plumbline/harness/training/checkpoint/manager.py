"""What one rank saves and restores, when, and what its log says of it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plumbline.harness.training.checkpoint import (
    CheckpointCorrupt,
    CheckpointRanks,
    LoadedCheckpoint,
    Manifest,
    NothingToResume,
    SavedCheckpoint,
    TrackedWriter,
    WritePause,
    checkpoint_name,
    checkpoint_steps,
    digest_file,
    discard_drafts,
    draft_path,
    drop_from_page_cache,
    flatten_state,
    process_cores,
    prune,
    publish,
    read_manifest,
    sync_file,
    sync_folder,
    verify_file,
    verify_size,
)
from plumbline.harness.training.worker_protocol import StepLog, WorkerSpec

if TYPE_CHECKING:
    from torch.distributed.checkpoint.stateful import Stateful


class TrainingState:
    """The live state of one rank; of sharded state, its part."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, precision: Stateful, device: torch.device) -> None:
        self.model, self.optimizer, self._precision, self._device = model, optimizer, precision, device

    def taken(self) -> dict[str, Any]:
        """The state as nested dictionaries; tensors are the live ones."""
        generators = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            generators["cuda"] = torch.cuda.get_rng_state(self._device)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "precision": self._precision.state_dict(),
            "generators": generators,
        }

    def put(self, state: dict[str, Any]) -> None:
        """Go on from a state that `taken` gave, here or in another process."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._precision.load_state_dict(state["precision"])
        torch.set_rng_state(state["generators"]["cpu"].cpu())
        if "cuda" in state["generators"]:
            torch.cuda.set_rng_state(state["generators"]["cuda"].cpu(), self._device)

    def state_after_first_step(self) -> dict[str, Any]:
        """The state with the tensors that the optimizer makes in its first step, so that there is somewhere to load them into.

        Weights stay as they are. Only before the first step.
        """
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        return self.taken()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor of model and optimizer by its path, of sharded ones this rank's part: equal tensors mean equal states."""
        state = self.taken()
        tensors = flatten_state({name: state[name] for name in ("model", "optimizer")})
        # A sharded tensor's part is asked for by its method, as its class would have to be imported for `isinstance`.
        return {
            name: getattr(leaf, "to_local", lambda leaf=leaf: leaf)() for name, leaf in tensors.items() if isinstance(leaf, torch.Tensor)
        }

    def fingerprint(self) -> dict[str, tuple[Any, ...]]:
        """Type, shape and checksum of each of `tensors`, and of the generators' states: equal ones mean equal states."""
        tensors = self.tensors() | {f"generators.{name}": state for name, state in self.taken()["generators"].items()}
        return {name: (tensor.dtype, tensor.shape, tensor_checksum(tensor)) for name, tensor in tensors.items()}

    def forget(self) -> None:
        """Free the optimizer's tensors, zero the weights and draw from the generators: as in a new process, nothing of the state is there."""
        self.optimizer.state.clear()
        for tensor in self.tensors().values():
            tensor.zero_()
        for device in {torch.device("cpu"), self._device}:
            torch.rand(1, device=device)


_PIECE_BYTES = 16 << 20
_MIXER, _BITS = 0x9E3779B97F4A7C15 - (1 << 64), (1 << 64) - 1


def tensor_checksum(tensor: torch.Tensor) -> int:
    """A checksum (64 bits) of a tensor's bytes, taken on its device in pieces: against damage and mix-ups, not against intent.

    Words of 32 bits are added up with odd factors that depend on their places, which no changed word and no two swapped ones survive.
    """
    total = 0
    for piece in torch.split(tensor.detach().reshape(-1).contiguous().view(torch.uint8), _PIECE_BYTES):
        words = nn.functional.pad(piece, (0, -len(piece) % 4)).view(torch.int32).to(torch.int64)
        factors = torch.arange(1, 2 * len(words), 2, dtype=torch.int64, device=words.device) * _MIXER
        total = (total * 31 + int((words * factors).sum())) & _BITS
    return total


class CheckpointManager:
    """Saves one rank's state, and loads it.

    `ranks` None: the process holds the whole state, and waits while it is written to one file.
    """

    def __init__(self, spec: WorkerSpec, log: StepLog, ranks: CheckpointRanks | None) -> None:
        self._spec, self._log, self._folder = spec, log, Path(spec.checkpoint_folder)
        self._retain = frozenset(spec.checkpoint_retain)
        self._sharded: Any = None
        if ranks is not None:
            # Imported here: alone and in step, a process would pay for it with a slower start.
            from plumbline.harness.training.checkpoint.sharded import ShardedCheckpoints

            self._sharded = ShardedCheckpoints(self._folder, ranks, keep=spec.checkpoint_keep, retain=self._retain)
        background = spec.checkpoint_mode == "async"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint") if background else None
        self._under_way: Future[None] | None = None
        self._summed = (0, 0)
        """From when to when (ns) the newest checkpoint's checksum was taken."""

    def save(self, step: int, state: TrainingState, *, at_end: bool) -> None:
        """The checkpoint after `step` steps; in the log once it is durable. A save that is under way is waited for first.

        OSError, such as a full disk, of this save or, in mode async, of the one before.
        """
        began = monotonic_ns()
        self.wait()
        # Of the wait for the save before, what its checksum took is this harness's own.
        waited = max(min(monotonic_ns(), self._summed[1]) - max(began, self._summed[0]), 0)
        pause = self._pause(step)
        if self._sharded is None:
            keep = self._spec.checkpoint_keep
            saved = save_file(self._folder, step, state.taken(), keep=keep, retain=self._retain, pause=pause)
        else:
            finish: Callable[[], SavedCheckpoint] = self._sharded.begin(step, state.taken(), beside=self._thread is not None, pause=pause)
            if self._thread is not None:
                paused_ns = monotonic_ns() - began
                self._under_way = self._thread.submit(lambda: self._log_save(step, finish(), paused_ns, waited, at_end))
                return
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

    def load(self, state: TrainingState, device: str, *, checksums: bool = True) -> LoadedCheckpoint:
        """Go on from the newest valid checkpoint. NothingToResume.

        `state` must not have done a step, or have forgotten it, if it is sharded or was written beside the training. Without `checksums` the caller compares what
        was loaded.
        """
        if self._sharded is not None:
            loaded: LoadedCheckpoint | None = self._sharded.load(state.state_after_first_step(), checksums=checksums)
        else:
            discard_drafts(self._folder)
            loaded = load_newest_file(self._folder, device, checksums=checksums)
        if loaded is None:
            raise NothingToResume(f"no valid checkpoint in {self._folder.name}")
        state.put(loaded.state)
        return loaded

    def evict_from_page_cache(self) -> bool:
        """Evict the newest checkpoint's files from the page cache, so that the next load reads the disk. Whether that worked."""
        path = self._folder / checkpoint_name(checkpoint_steps(self._folder)[0])
        return drop_from_page_cache(file for file in path.iterdir() if file.is_file())

    def on_all_ranks(self, here: bool) -> bool:
        return here if self._sharded is None else bool(self._sharded.on_all_ranks(here))

    def _log_save(self, step: int, saved: SavedCheckpoint, paused_ns: int, summing: int, at_end: bool) -> None:
        """`paused_ns`: nanoseconds without training, `summing` of them for a checksum."""
        now = monotonic_ns()
        self._summed = now - int(saved.checksum_s * 1e9), now
        times = {"save_s": saved.seconds, "checksum_s": saved.checksum_s, "blocking": paused_ns - summing, "summing": summing}
        self._log.event("checkpoint", step=step, **times, bytes=saved.bytes, closing=at_end)

    def _pause(self, step: int) -> WritePause | None:
        hold = self._spec.hold
        if hold is None or (hold.step + 1, hold.inside) != (step, "checkpoint"):
            return None
        return WritePause(lambda: self._hold(hold.step))

    def _hold(self, step: int) -> None:
        """Report the half-written checkpoint and wait for the kill, which then falls into its middle on any disk."""
        self._log.event("holding", step=step)
        threading.Event().wait()


_STATE_FILE = "state.pt"


def save_file(
    folder: Path, step: int, state: dict[str, Any], *, keep: int, retain: frozenset[int] = frozenset(), pause: WritePause | None = None
) -> SavedCheckpoint:
    """Write `state` as the checkpoint after `step` steps, then delete all but the newest `keep` and those in `retain`.

    Raises OSError (such as a full disk); older checkpoints are then untouched.
    """
    final, draft = folder / checkpoint_name(step), draft_path(folder, step)
    shutil.rmtree(draft, ignore_errors=True)  # left by an attempt that was killed here and started again
    began = time.monotonic_ns()
    draft.mkdir(parents=True)
    expected = sum(leaf.nbytes for leaf in flatten_state(state).values() if isinstance(leaf, torch.Tensor))
    try:
        with (draft / _STATE_FILE).open("wb") as raw:
            writer = TrackedWriter(raw, expected=expected, pause=pause)
            try:
                torch.save({**state, "step": step}, writer)  # type: ignore[arg-type]  # it asks for no more than write and flush
            except RuntimeError as error:
                raise writer.error or error from error
            sync_file(raw)
        sync_folder(draft)
        durable = time.monotonic_ns()
        part = digest_file(draft / _STATE_FILE, len(process_cores()))
        publish(draft, final, Manifest(step, {_STATE_FILE: part}))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    published = time.monotonic_ns()
    prune(folder, keep, retain)
    return SavedCheckpoint(part.bytes, (durable - began) / 1e9, (published - durable) / 1e9)


def load_newest_file(folder: Path, device: str = "cpu", *, checksums: bool = True) -> LoadedCheckpoint | None:
    """The newest checkpoint whose checksum holds (without `checksums`: that can be loaded), its tensors on `device`; None if there is none."""
    rejected: list[str] = []
    for step in checkpoint_steps(folder):
        path = folder / checkpoint_name(step)
        try:
            state, checksum_s = _load_verified(path, device, checksums)
            return LoadedCheckpoint(step, state, tuple(rejected), checksum_s)
        except CheckpointCorrupt as error:
            rejected.append(f"{path.name}: {error}")
    return None


def _load_verified(path: Path, device: str, checksums: bool) -> tuple[dict[str, Any], float]:
    """(state, seconds that checking took). It is loaded first, from the disk, and checked before anybody uses it, from memory."""
    manifest = read_manifest(path)
    if _STATE_FILE not in manifest.files:
        raise CheckpointCorrupt(f"has an unusable manifest (no {_STATE_FILE})")
    verify_size(path, _STATE_FILE, manifest.files[_STATE_FILE])
    state: dict[str, Any] = {}
    failure: Exception | None = None
    try:
        state = torch.load(path / _STATE_FILE, map_location=device, weights_only=True)
    except OSError as error:
        raise CheckpointCorrupt(f"cannot be read ({error})") from error
    except Exception as error:  # noqa: BLE001 - what a damaged file makes of the reader; the checksum tells
        failure = error
    began = time.monotonic_ns()
    if checksums or failure is not None:
        verify_file(path, _STATE_FILE, manifest.files[_STATE_FILE], len(process_cores()))
    checksum_s = (time.monotonic_ns() - began) / 1e9
    if failure is not None:
        raise failure
    if state.get("step") != manifest.step:
        raise CheckpointCorrupt(f"is named after step {manifest.step} but holds step {state.get('step')}")
    return state, checksum_s
