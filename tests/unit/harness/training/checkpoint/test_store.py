"""Checkpoints by one process, in one file and by `torch.distributed.checkpoint`: at once or beside the training, verified, passed over when damaged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.harness.training.checkpoint import folder
from plumbline.harness.training.checkpoint.folder import checkpoint_name
from plumbline.harness.training.checkpoint.sharded import ShardedStore
from plumbline.harness.training.checkpoint.store import CheckpointStore, LoadedCheckpoint, NothingToResume, SingleProcess, TrackedFile

CPU = torch.device("cpu")


def state(value: float) -> dict[str, Any]:
    return {"model": {"w": torch.full((1000,), value), "half": torch.full((3, 5), value, dtype=torch.bfloat16)}, "optimizer": {"lr": value}}


@pytest.fixture(params=[CheckpointStore, ShardedStore])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    store: CheckpointStore = request.param(tmp_path, SingleProcess(), keep=2, retain=frozenset({2}))
    return store


def data(folder: Path) -> Path:
    """The file that holds the tensors."""
    return next(path for path in folder.iterdir() if path.name in ("state.pt", "__0_0.distcp"))


def saved(keeper: CheckpointStore, step: int, value: float, *, beside: bool = False) -> None:
    keeper.begin(step, state(value), beside=beside)()


def loaded(keeper: CheckpointStore) -> LoadedCheckpoint:
    return keeper.load(state(0.0), CPU)


@pytest.mark.parametrize("beside", [False, True])
def test_comes_back_as_it_was_when_the_save_began(keeper: CheckpointStore, beside: bool, tmp_path: Path) -> None:
    live = state(1.5)
    finish = keeper.begin(4, live, beside=beside)
    if beside:
        live["model"]["w"].zero_()
    size, seconds, checksum_s = finish()
    restored = loaded(keeper)
    assert (restored.step, restored.rejected) == (4, ())
    assert torch.equal(restored.state["model"]["w"], torch.full((1000,), 1.5))
    assert torch.equal(restored.state["model"]["half"], state(1.5)["model"]["half"]) and restored.state["optimizer"] == {"lr": 1.5}
    files = [path for path in (tmp_path / checkpoint_name(4)).iterdir() if path.name != "manifest.json"]
    assert size == sum(path.stat().st_size for path in files) and seconds > 0 and checksum_s > 0


def test_neither_time_has_the_checksum_in_it(keeper: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that passes only while a checksum is taken: a thousand seconds each time."""
    clock = [0]

    def slowly(path: Path, threads: int) -> str:
        clock[0] += 1000 * 10**9
        return plain(path, threads)

    plain = folder.blocks_sha256
    monkeypatch.setattr(folder, "blocks_sha256", slowly)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    assert keeper.begin(8, state(1.0), beside=False)()[1:] == (0.0, 1000.0 * len(keeper.contents) + 1000.0 * (len(keeper.contents) > 1))
    assert loaded(keeper).checksum_s == 1000.0


def test_a_step_saved_again_replaces_the_old_one(keeper: CheckpointStore, tmp_path: Path) -> None:
    saved(keeper, 4, 1.0)
    saved(keeper, 4, 2.0)
    assert loaded(keeper).state["optimizer"] == {"lr": 2.0}
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint_name(4)]


def test_a_draft_is_never_resumed_from_and_goes_away(keeper: CheckpointStore, tmp_path: Path) -> None:
    saved(keeper, 4, 4.0)
    saved(keeper, 8, 8.0)
    (tmp_path / checkpoint_name(8)).rename(tmp_path / f"{checkpoint_name(8)}.part")
    assert loaded(keeper).step == 4
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint_name(4)]


def test_a_draft_of_the_same_step_that_a_killed_attempt_left_is_no_obstacle(keeper: CheckpointStore, tmp_path: Path) -> None:
    saved(keeper, 4, 3.0)
    (tmp_path / checkpoint_name(4)).rename(tmp_path / f"{checkpoint_name(4)}.part")
    saved(keeper, 4, 4.0)
    assert loaded(keeper).state["optimizer"] == {"lr": 4.0}


def test_the_newest_and_the_retained_stay(keeper: CheckpointStore, tmp_path: Path) -> None:
    for step in (2, 8, 12, 16):
        saved(keeper, step, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint_name(step) for step in (2, 12, 16)]


def flip(path: Path) -> None:
    raw = bytearray(data(path).read_bytes())
    raw[len(raw) // 2] ^= 1
    data(path).write_bytes(raw)


def cut(path: Path) -> None:
    data(path).write_bytes(data(path).read_bytes()[:-10])


def rename(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"step": 999}))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut, "its manifest says"),
        (rename, "is named after step 8"),
        (lambda path: (path / "manifest.json").write_text("{"), "unusable manifest"),
        (lambda path: (path / "manifest.json").write_text('["x"]'), "unusable manifest"),
        (lambda path: data(path).unlink(), "cannot be read"),
        (flip, "differs from the SHA-256"),
        (lambda path: (path / "manifest.json").unlink(), "cannot be read"),
        (
            lambda path: (path / "manifest.json").write_text(
                (path / "manifest.json").read_text().replace('"all"', '"node 1 with 2 ranks"')
            ),
            "is of node 1 with 2 ranks; expected all",
        ),
    ],
)
@pytest.mark.fault("a checkpoint is damaged", ends="the one before is used", keeps="the training")
def test_a_damaged_one_is_passed_over_for_the_one_before(
    keeper: CheckpointStore, tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    saved(keeper, 4, 4.0)
    saved(keeper, 8, 8.0)
    damage(tmp_path / checkpoint_name(8))
    restored = loaded(keeper)
    assert restored.step == 4 and restored.state["optimizer"] == {"lr": 4.0}
    assert len(restored.rejected) == 1 and checkpoint_name(8) in restored.rejected[0] and why in restored.rejected[0]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: (path / ".metadata").unlink(), "cannot be read"),
        (lambda path: (path / "structure.pt").write_bytes(b""), "structure.pt has 0 bytes"),
    ],
)
def test_what_describes_a_sharded_one_is_looked_at_before_it_is_read(tmp_path: Path, damage: Callable[[Path], None], why: str) -> None:
    keeper = ShardedStore(tmp_path, SingleProcess(), keep=2, retain=frozenset())
    saved(keeper, 4, 4.0)
    saved(keeper, 8, 8.0)
    damage(tmp_path / checkpoint_name(8))
    restored = loaded(keeper)
    assert restored.step == 4 and why in restored.rejected[0]


def test_nothing_valid_is_said_with_the_reason(keeper: CheckpointStore, tmp_path: Path) -> None:
    with pytest.raises(NothingToResume, match="no valid checkpoint"):
        loaded(keeper)
    saved(keeper, 4, 4.0)
    flip(tmp_path / checkpoint_name(4))
    with pytest.raises(NothingToResume, match=r"step-00000004: (__0_0\.distcp|state\.pt) differs"):
        loaded(keeper)


@pytest.mark.parametrize("beside", [False, True])
def test_what_the_disk_says_comes_out(keeper: CheckpointStore, monkeypatch: pytest.MonkeyPatch, beside: bool) -> None:
    saved(keeper, 4, 4.0)
    plain = TrackedFile.__init__
    with monkeypatch.context() as full:
        full.setattr(TrackedFile, "__init__", lambda file, path, *rest: plain(file, Path("/dev/full"), *rest))
        with pytest.raises(OSError, match="No space left"):
            keeper.begin(8, state(8.0) | {"big": torch.ones(1 << 18)}, beside=beside)()
    assert loaded(keeper).step == 4


def test_half_way_there_are_bytes_and_no_manifest(keeper: CheckpointStore, tmp_path: Path) -> None:
    seen: list[dict[str, int]] = []

    def look() -> None:
        seen.append({path.name: path.stat().st_size for path in (tmp_path / f"{checkpoint_name(8)}.part").iterdir()})

    keeper.begin(8, state(8.0) | {"big": torch.ones(1 << 18)}, beside=False, pause=look)()
    assert len(seen[0]) == 1 and next(iter(seen[0].values())) >= 1 << 19


def test_what_the_disk_said_is_kept() -> None:
    file = TrackedFile(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left"):
        file.write(b"a" * (1 << 20))
    assert file.error is not None
    file.raw.close()


def test_the_pause_comes_once_half_is_written(tmp_path: Path) -> None:
    sizes: list[int] = []
    path = tmp_path / "x"
    with TrackedFile(path, expected=8, pause=lambda: sizes.append(path.stat().st_size)) as file:
        file.write(b"abc")
        assert sizes == []
        file.write(b"d")
        assert sizes == [4]
