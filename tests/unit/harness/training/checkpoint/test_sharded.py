"""`torch.distributed.checkpoint` by one process: beside the training, verified, passed over when damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.harness.training.checkpoint import NothingToResume, SingleProcess, WritePause, checkpoint_name
from plumbline.harness.training.checkpoint.sharded import ShardedCheckpoints


def state(value: float) -> dict[str, Any]:
    return {"model": {"w": torch.full((1000,), value), "half": torch.full((3, 5), value, dtype=torch.bfloat16)}, "optimizer": {"lr": value}}


@pytest.fixture
def keeper(tmp_path: Path) -> ShardedCheckpoints:
    return ShardedCheckpoints(tmp_path, SingleProcess(), keep=2, retain=frozenset())


def saved(keeper: ShardedCheckpoints, step: int, value: float, *, beside: bool = False) -> None:
    keeper.begin(step, state(value), beside=beside)()


@pytest.mark.parametrize("beside", [False, True])
def test_comes_back_as_it_was_when_the_save_began(keeper: ShardedCheckpoints, beside: bool, tmp_path: Path) -> None:
    live = state(1.5)
    finish = keeper.begin(4, live, beside=beside)
    live["model"]["w"].zero_()
    size, seconds, checksum_s = finish()
    restored = keeper.load(state(0.0))
    assert (restored.step, restored.rejected) == (4, ())
    assert torch.equal(restored.state["model"]["w"], torch.full((1000,), 1.5))
    assert torch.equal(restored.state["model"]["half"], state(1.5)["model"]["half"]) and restored.state["optimizer"] == {"lr": 1.5}
    files = [path for path in (tmp_path / checkpoint_name(4)).iterdir() if path.name != "manifest.json"]
    assert size == sum(path.stat().st_size for path in files) and seconds > 0 and checksum_s > 0


def test_the_newest_stay(keeper: ShardedCheckpoints, tmp_path: Path) -> None:
    for step in (4, 8, 12):
        saved(keeper, step, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint_name(8), checkpoint_name(12)]


def flip(path: Path) -> None:
    raw = bytearray((path / "__0_0.distcp").read_bytes())
    raw[len(raw) // 2] ^= 1
    (path / "__0_0.distcp").write_bytes(raw)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (flip, "__0_0.distcp differs from the SHA-256"),
        (lambda path: (path / ".metadata").unlink(), "cannot be read"),
        (lambda path: (path / "manifest.json").unlink(), "cannot be read"),
        (lambda path: (path / "values.pt").write_bytes(b""), "values.pt has 0 bytes"),
        (
            lambda path: (path / "manifest.json").write_text(
                (path / "manifest.json").read_text().replace('"all"', '"node 1 with 2 ranks"')
            ),
            "is of node 1 with 2 ranks; expected all",
        ),
    ],
)
@pytest.mark.fault("a sharded checkpoint is damaged", ends="the one before is used", keeps="the training")
def test_a_damaged_one_is_passed_over_for_the_one_before(
    keeper: ShardedCheckpoints, tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    saved(keeper, 4, 4.0)
    saved(keeper, 8, 8.0)
    damage(tmp_path / checkpoint_name(8))
    restored = keeper.load(state(0.0))
    assert restored.step == 4 and restored.state["optimizer"] == {"lr": 4.0}
    assert len(restored.rejected) == 1 and checkpoint_name(8) in restored.rejected[0] and why in restored.rejected[0]


def test_nothing_valid_is_said_with_the_reason(keeper: ShardedCheckpoints, tmp_path: Path) -> None:
    with pytest.raises(NothingToResume, match="no valid checkpoint"):
        keeper.load(state(0.0))
    saved(keeper, 4, 4.0)
    flip(tmp_path / checkpoint_name(4))
    with pytest.raises(NothingToResume, match=r"step-00000004: __0_0\.distcp differs"):
        keeper.load(state(0.0))


@pytest.mark.parametrize("beside", [False, True])
def test_what_the_disk_says_comes_out(keeper: ShardedCheckpoints, tmp_path: Path, beside: bool) -> None:
    saved(keeper, 4, 4.0)
    draft = tmp_path / f"{checkpoint_name(8)}.part"
    draft.mkdir()
    (draft / "__0_0.distcp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        keeper.begin(8, state(8.0), beside=beside)()
    assert keeper.load(state(0.0)).step == 4


def test_half_way_there_are_bytes_and_no_manifest(keeper: ShardedCheckpoints, tmp_path: Path) -> None:
    seen: list[dict[str, int]] = []

    def look() -> None:
        seen.append({path.name: path.stat().st_size for path in (tmp_path / f"{checkpoint_name(8)}.part").iterdir()})

    keeper.begin(8, state(8.0) | {"big": torch.ones(1 << 18)}, beside=False, pause=WritePause(look))()
    assert seen[0].keys() == {"__0_0.distcp"} and seen[0]["__0_0.distcp"] >= 1 << 19
