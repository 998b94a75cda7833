"""State that one process holds whole, in one file, by `torch.save`: the process waits until it is on the disk."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from plumbline.harness.training.checkpoint import folder as folders
from plumbline.harness.training.checkpoint.folder import Damaged, Manifest, draft_of, name_of
from plumbline.harness.training.checkpoint.state import leaves_of
from plumbline.harness.training.checkpoint.writing import Pause, Summing, sync

_FILE = "state.pt"


@dataclass(frozen=True)
class Saved:
    """`seconds` from the start of the save to durable bytes under the final name."""

    path: Path
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Loaded:
    """State of the newest valid checkpoint. `rejected` says of each newer one why it was passed over."""

    path: Path
    state: dict[str, Any]
    rejected: tuple[str, ...]

    @property
    def step(self) -> int:
        """Steps that were done when it was saved: the next one to do."""
        return int(self.state["step"])


def save(
    folder: Path, step: int, state: dict[str, Any], *, keep: int, retain: frozenset[int] = frozenset(), pause: Pause | None = None
) -> Saved:
    """Write `state` as the checkpoint after `step` steps, then delete all but the newest `keep` and those in `retain`.

    Raises OSError (such as a full disk); older checkpoints are then untouched.
    """
    began = time.monotonic_ns()
    final, draft = folder / name_of(step), draft_of(folder, step)
    shutil.rmtree(draft, ignore_errors=True)  # of an attempt that was killed in it, and began anew
    draft.mkdir(parents=True)
    expected = sum(leaf.nbytes for leaf in leaves_of(state).values() if isinstance(leaf, torch.Tensor))
    try:
        with (draft / _FILE).open("wb") as raw:
            writer = Summing(raw, expected=expected, pause=pause)
            try:
                torch.save({**state, "step": step}, writer)  # type: ignore[arg-type]  # it asks for no more than write and flush
            except RuntimeError as error:
                raise writer.error or error from error
            sync(raw)
        folders.publish(draft, final, Manifest(step, {_FILE: writer.part}))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    taken = (time.monotonic_ns() - began) / 1e9
    folders.prune(folder, keep, retain)
    return Saved(final, writer.part.bytes, taken)


def load_newest(folder: Path, device: str = "cpu") -> Loaded | None:
    """The newest checkpoint whose checksum holds, its tensors on `device`; None if there is none."""
    rejected: list[str] = []
    for step in folders.steps_in(folder):
        path = folder / name_of(step)
        try:
            return Loaded(path, _verified(path, device), tuple(rejected))
        except Damaged as error:
            rejected.append(f"{path.name}: {error}")
    return None


def _verified(path: Path, device: str) -> dict[str, Any]:
    manifest = folders.manifest_of(path)
    if _FILE not in manifest.files:
        raise Damaged(f"has an unusable manifest (no {_FILE})")
    folders.check(path, _FILE, manifest.files[_FILE])
    try:
        state: dict[str, Any] = torch.load(path / _FILE, map_location=device, weights_only=True)
    except OSError as error:
        raise Damaged(f"cannot be read ({error})") from error
    if state.get("step") != manifest.step:
        raise Damaged(f"is named after step {manifest.step} but holds step {state.get('step')}")
    return state
