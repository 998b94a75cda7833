"""Checkpoints beside the training where `async_save` takes no `no_dist`, as in PyTorch 2.7."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.harness.training.checkpoint import SingleProcess, sharded
from plumbline.harness.training.checkpoint.sharded import ShardedCheckpoints


def test_one_process_saves_a_copy_beside_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(state_dict: Any, *, storage_writer: Any, process_group: Any) -> Future[Any]:
        raise AssertionError("it would wait for ranks that do not save")

    monkeypatch.setattr(sharded, "async_save", before)
    keeper = ShardedCheckpoints(tmp_path, SingleProcess(), keep=1, retain=frozenset())
    state = {"model": {"weight": torch.arange(6.0)}, "step": 3}
    finish = keeper.begin(3, state, beside=True)
    state["model"]["weight"].zero_()
    saved = finish()
    assert saved.bytes > 0 and saved.seconds > 0
    restored = keeper.load({"model": {"weight": torch.zeros(6)}, "step": 0})
    assert (restored.step, restored.state["step"]) == (3, 3)
    assert torch.equal(restored.state["model"]["weight"], torch.arange(6.0))
