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
from plumbline.harness.training.checkpoint.writing import Pause, Written, part_of, sync, sync_folder

_FILE = "state.pt"


@dataclass(frozen=True)
class Saved:
    """`seconds` from the start of the save to durable bytes; then `checksum_s` until they bore their checksum and their final name."""

    path: Path
    bytes: int
    seconds: float
    checksum_s: float


@dataclass(frozen=True)
class Loaded:
    """State of the newest valid checkpoint. `rejected` says of each newer one why it was passed over; `checksum_s` is what checking took."""

    path: Path
    state: dict[str, Any]
    rejected: tuple[str, ...]
    checksum_s: float

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
    final, draft = folder / name_of(step), draft_of(folder, step)
    shutil.rmtree(draft, ignore_errors=True)  # of an attempt that was killed in it, and began anew
    began = time.monotonic_ns()
    draft.mkdir(parents=True)
    expected = sum(leaf.nbytes for leaf in leaves_of(state).values() if isinstance(leaf, torch.Tensor))
    try:
        with (draft / _FILE).open("wb") as raw:
            writer = Written(raw, expected=expected, pause=pause)
            try:
                torch.save({**state, "step": step}, writer)  # type: ignore[arg-type]  # it asks for no more than write and flush
            except RuntimeError as error:
                raise writer.error or error from error
            sync(raw)
        sync_folder(draft)
        durable = time.monotonic_ns()
        part = part_of(draft / _FILE)
        folders.publish(draft, final, Manifest(step, {_FILE: part}))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    published = time.monotonic_ns()
    folders.prune(folder, keep, retain)
    return Saved(final, part.bytes, (durable - began) / 1e9, (published - durable) / 1e9)


def load_newest(folder: Path, device: str = "cpu") -> Loaded | None:
    """The newest checkpoint whose checksum holds, its tensors on `device`; None if there is none."""
    rejected: list[str] = []
    for step in folders.steps_in(folder):
        path = folder / name_of(step)
        try:
            state, checksum_s = _verified(path, device)
            return Loaded(path, state, tuple(rejected), checksum_s)
        except Damaged as error:
            rejected.append(f"{path.name}: {error}")
    return None


def _verified(path: Path, device: str) -> tuple[dict[str, Any], float]:
    """(state, seconds that checking took). It is loaded first, from the disk, and checked before anybody uses it, from memory."""
    manifest = folders.manifest_of(path)
    if _FILE not in manifest.files:
        raise Damaged(f"has an unusable manifest (no {_FILE})")
    folders.check_size(path, _FILE, manifest.files[_FILE])
    state: dict[str, Any] = {}
    failure: Exception | None = None
    try:
        state = torch.load(path / _FILE, map_location=device, weights_only=True)
    except OSError as error:
        raise Damaged(f"cannot be read ({error})") from error
    except Exception as error:  # noqa: BLE001 - what a damaged file makes of the reader; the checksum tells
        failure = error
    began = time.monotonic_ns()
    folders.check(path, _FILE, manifest.files[_FILE])
    checksum_s = (time.monotonic_ns() - began) / 1e9
    if failure is not None:
        raise failure
    if state.get("step") != manifest.step:
        raise Damaged(f"is named after step {manifest.step} but holds step {state.get('step')}")
    return state, checksum_s
