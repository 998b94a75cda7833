"""Checkpoint of a process that holds the whole state: one file by `torch.save`, synchronous."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import torch

from plumbline.harness.training import checkpoint as folders
from plumbline.harness.training.checkpoint import (
    CheckpointCorrupt,
    LoadedCheckpoint,
    Manifest,
    SavedCheckpoint,
    TrackedWriter,
    WritePause,
    checkpoint_name,
    digest_file,
    draft_path,
    flatten_state,
    sync_file,
    sync_folder,
)

_STATE_FILE = "state.pt"


def save(
    folder: Path, step: int, state: dict[str, Any], *, keep: int, retain: frozenset[int] = frozenset(), pause: WritePause | None = None
) -> SavedCheckpoint:
    """Write `state` as the checkpoint after `step` steps, then delete all but the newest `keep` and those in `retain`.

    Raises OSError (such as a full disk); older checkpoints are then untouched.
    """
    final, draft = folder / checkpoint_name(step), draft_path(folder, step)
    shutil.rmtree(draft, ignore_errors=True)  # of an attempt that was killed in it, and began anew
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
        part = digest_file(draft / _STATE_FILE)
        folders.publish(draft, final, Manifest(step, {_STATE_FILE: part}))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    published = time.monotonic_ns()
    folders.prune(folder, keep, retain)
    return SavedCheckpoint(part.bytes, (durable - began) / 1e9, (published - durable) / 1e9)


def load_newest(folder: Path, device: str = "cpu") -> LoadedCheckpoint | None:
    """The newest checkpoint whose checksum holds, its tensors on `device`; None if there is none."""
    rejected: list[str] = []
    for step in folders.checkpoint_steps(folder):
        path = folder / checkpoint_name(step)
        try:
            state, checksum_s = _load_verified(path, device)
            return LoadedCheckpoint(step, state, tuple(rejected), checksum_s)
        except CheckpointCorrupt as error:
            rejected.append(f"{path.name}: {error}")
    return None


def _load_verified(path: Path, device: str) -> tuple[dict[str, Any], float]:
    """(state, seconds that checking took). It is loaded first, from the disk, and checked before anybody uses it, from memory."""
    manifest = folders.read_manifest(path)
    if _STATE_FILE not in manifest.files:
        raise CheckpointCorrupt(f"has an unusable manifest (no {_STATE_FILE})")
    folders.verify_size(path, _STATE_FILE, manifest.files[_STATE_FILE])
    state: dict[str, Any] = {}
    failure: Exception | None = None
    try:
        state = torch.load(path / _STATE_FILE, map_location=device, weights_only=True)
    except OSError as error:
        raise CheckpointCorrupt(f"cannot be read ({error})") from error
    except Exception as error:  # noqa: BLE001 - what a damaged file makes of the reader; the checksum tells
        failure = error
    began = time.monotonic_ns()
    folders.verify_file(path, _STATE_FILE, manifest.files[_STATE_FILE])
    checksum_s = (time.monotonic_ns() - began) / 1e9
    if failure is not None:
        raise failure
    if state.get("step") != manifest.step:
        raise CheckpointCorrupt(f"is named after step {manifest.step} but holds step {state.get('step')}")
    return state, checksum_s
