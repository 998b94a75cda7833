"""The outline of a checkpoint builds what outlines are made of, and calls nothing."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.harness.training.checkpoint.folder import CheckpointCorrupt, checkpoint_name, digest_file
from plumbline.harness.training.checkpoint.sharded import MetadataReader, ShardedStore
from plumbline.harness.training.checkpoint.store import SingleProcess


class Command:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._mark),)


def state(value: float) -> dict[str, Any]:
    return {"w": torch.full((8,), value), "half": torch.full((2,), value, dtype=torch.bfloat16), "lr": value}


@pytest.mark.fault("a checkpoint's metadata names a program to run", ends="refused", keeps="the checkpoint before it")
def test_a_forged_outline_runs_nothing_and_the_checkpoint_before_it_is_loaded(tmp_path: Path) -> None:
    keeper, mark = ShardedStore(tmp_path / "kept", SingleProcess(), keep=2, retain=frozenset()), tmp_path / "ran"
    for step in (4, 8):
        keeper.begin(step, state(float(step)), beside=False)()
    folder = tmp_path / "kept" / checkpoint_name(8)
    (folder / ".metadata").write_bytes(pickle.dumps(Command(mark)))
    manifest = json.loads((folder / "manifest.json").read_text())
    part = digest_file(folder / ".metadata")
    manifest["files"][".metadata"] = {"bytes": part.bytes, "sha256": part.sha256}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    restored = keeper.load(state(0.0), torch.device("cpu"))
    assert restored.step == 4 and "posix.mkdir" in restored.rejected[0] and not mark.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"no pickle", pickle.dumps({"a": 1}), b"\x80\x04\x8c\x05torch\x8c\x0bhub.os.path\x93."],
    ids=["empty", "text", "another object", "a dotted name"],
)
def test_what_is_no_outline_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".metadata").write_bytes(content)
    with pytest.raises(CheckpointCorrupt):
        MetadataReader(tmp_path).read_metadata()
