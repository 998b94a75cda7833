"""Checkpoints: complete or absent, verified, pruned."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.harness.training import checkpoint
from plumbline.harness.training.checkpoint import WritePause, checkpoint_name, discard_drafts
from plumbline.harness.training.checkpoint.manager import load_newest_file, save_file


def state(value: float = 1.0) -> dict[str, Any]:
    return {
        "model": {"w": torch.full((100,), value)},
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}},
        "generators": {"cpu": torch.get_rng_state()},
    }


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = save_file(tmp_path, 8, state(0.1), keep=2)
    loaded = load_newest_file(tmp_path)
    assert loaded is not None and loaded.step == 8 and loaded.rejected == ()
    assert torch.equal(loaded.state["model"]["w"], state(0.1)["model"]["w"])
    assert saved.bytes == (tmp_path / checkpoint_name(8) / "state.pt").stat().st_size
    assert saved.seconds > 0


def test_neither_time_has_the_checksum_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that passes only while a checksum is taken: a thousand seconds each time."""
    clock = [0]

    def slowly(path: Path, threads: int) -> str:
        clock[0] += 1000 * 10**9
        return plain(path, threads)

    plain = checkpoint.blocks_sha256
    monkeypatch.setattr(checkpoint, "blocks_sha256", slowly)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    saved = save_file(tmp_path, 8, state(), keep=2)
    assert (saved.seconds, saved.checksum_s) == (0.0, 1000.0)
    loaded = load_newest_file(tmp_path)
    assert loaded is not None and loaded.checksum_s == 1000.0


def test_blocks_of_a_file_are_summed_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two blocks wait for each other: one thread alone would never come to the second."""
    monkeypatch.setattr(checkpoint, "_BLOCK_BYTES", 1000)
    file = tmp_path / "file"
    file.write_bytes(bytes(range(250)) * 9)
    alone = checkpoint.blocks_sha256(file, 1)
    both, plain = threading.Barrier(2), checkpoint._block_sha256

    def meet(path: Path, start: int) -> bytes:
        if start < 2000:
            both.wait(timeout=60)
        return plain(path, start)

    monkeypatch.setattr(checkpoint, "_block_sha256", meet)
    assert checkpoint.blocks_sha256(file, 2) == alone


@pytest.mark.parametrize("place", [0, 999, 1000, 2249])
def test_a_flipped_bit_in_any_block_changes_the_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(checkpoint, "_BLOCK_BYTES", 1000)
    data = bytearray(2250)
    (tmp_path / "file").write_bytes(data)
    before = checkpoint.blocks_sha256(tmp_path / "file", 2)
    data[place] = 1
    (tmp_path / "file").write_bytes(data)
    assert checkpoint.blocks_sha256(tmp_path / "file", 2) != before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a thread's cores")
def test_a_checksum_uses_the_cores_of_the_process_and_not_of_a_bound_thread() -> None:
    everywhere = os.sched_getaffinity(0)
    found = list[frozenset[int]]()

    def bound() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        found.append(checkpoint.process_cores())

    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    assert found == [frozenset(everywhere)]


def test_the_newest_and_the_retained_stay(tmp_path: Path) -> None:
    for step in (4, 8, 12, 16):
        save_file(tmp_path, step, state(), keep=2, retain=frozenset({4}))
    assert names(tmp_path) == [checkpoint_name(step) for step in (4, 12, 16)]


def test_a_step_saved_again_replaces_the_old_one(tmp_path: Path) -> None:
    save_file(tmp_path, 4, state(1.0), keep=2)
    save_file(tmp_path, 4, state(2.0), keep=2)
    loaded = load_newest_file(tmp_path)
    assert loaded is not None and loaded.state["model"]["w"][0] == 2.0
    assert names(tmp_path) == [checkpoint_name(4)]


def flip(path: Path) -> None:
    raw = bytearray((path / "state.pt").read_bytes())
    raw[len(raw) // 2] ^= 1
    (path / "state.pt").write_bytes(raw)


def cut(path: Path) -> None:
    (path / "state.pt").write_bytes((path / "state.pt").read_bytes()[:-10])


def rename(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"step": 999}))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (flip, "differs from the SHA-256"),
        (cut, "its manifest says"),
        (rename, "is named after step 8"),
        (lambda path: (path / "manifest.json").unlink(), "cannot be read"),
        (lambda path: (path / "manifest.json").write_text("{"), "unusable manifest"),
        (lambda path: (path / "manifest.json").write_text('["x"]'), "unusable manifest"),
        (lambda path: (path / "state.pt").unlink(), "cannot be read"),
    ],
)
@pytest.mark.fault("a checkpoint is damaged", ends="the one before is used", keeps="the training")
def test_a_damaged_one_is_passed_over_for_the_one_before(tmp_path: Path, damage: Any, why: str) -> None:
    save_file(tmp_path, 4, state(4.0), keep=2)
    save_file(tmp_path, 8, state(8.0), keep=2)
    damage(tmp_path / checkpoint_name(8))
    loaded = load_newest_file(tmp_path)
    assert loaded is not None and loaded.step == 4
    assert len(loaded.rejected) == 1 and checkpoint_name(8) in loaded.rejected[0] and why in loaded.rejected[0]


def test_nothing_valid_is_nothing(tmp_path: Path) -> None:
    assert load_newest_file(tmp_path / "absent") is None
    save_file(tmp_path, 4, state(), keep=2)
    cut(tmp_path / checkpoint_name(4))
    assert load_newest_file(tmp_path) is None


def test_a_draft_is_never_resumed_from_and_goes_away(tmp_path: Path) -> None:
    save_file(tmp_path, 4, state(), keep=2)
    save_file(tmp_path, 8, state(), keep=2)
    draft = tmp_path / checkpoint_name(8)
    draft.rename(tmp_path / f"{checkpoint_name(8)}.part")
    loaded = load_newest_file(tmp_path)
    assert loaded is not None and loaded.step == 4
    discard_drafts(tmp_path)
    assert names(tmp_path) == [checkpoint_name(4)]


def test_a_save_that_fails_leaves_the_old_ones_and_no_draft(tmp_path: Path) -> None:
    save_file(tmp_path, 4, state(), keep=1)
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        save_file(tmp_path, 8, {"model": lambda: None}, keep=1)
    assert names(tmp_path) == [checkpoint_name(4)]


def test_a_draft_of_the_same_step_that_a_killed_attempt_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f"{checkpoint_name(4)}.part").mkdir()
    save_file(tmp_path, 4, state(), keep=1)
    assert names(tmp_path) == [checkpoint_name(4)]


def test_half_way_there_are_bytes_and_no_manifest(tmp_path: Path) -> None:
    seen: list[dict[str, int]] = []

    def look() -> None:
        (draft,) = tmp_path.glob("*.part")
        seen.append({path.name: path.stat().st_size for path in draft.iterdir()})

    save_file(tmp_path, 8, state(8.0) | {"big": torch.ones(1 << 18)}, keep=1, pause=WritePause(look))
    assert seen[0].keys() == {"state.pt"} and seen[0]["state.pt"] >= 1 << 19
