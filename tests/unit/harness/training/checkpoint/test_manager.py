"""When a rank saves and loads, and what its log says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training import plan
from plumbline.harness.training.checkpoint.folder import checkpoint_name
from plumbline.harness.training.checkpoint.manager import CheckpointManager
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.checkpoint.store import NothingToResume, SingleProcess
from plumbline.harness.training.dataset import DataFile
from plumbline.harness.training.worker_protocol import StepLog

CPU = torch.device("cpu")


def live(value: float = 1.0) -> TrainingState:
    model = torch.nn.Linear(4, 4)
    torch.nn.init.constant_(model.weight, value)
    return TrainingState(model, torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cpu", enabled=False), CPU)


@pytest.fixture(params=["sync", "async"])
def keeper(request: pytest.FixtureRequest, tiny: Callable[..., TrainingWorkload], tmp_path: Path) -> CheckpointManager:
    spec = plan.undisturbed_spec(tiny(fault=None), DataFile(tmp_path, "<u2", 4096, ""), tmp_path, device="cpu")
    return CheckpointManager(replace(spec, checkpoint_mode=request.param), StepLog(tmp_path / "log"), SingleProcess())


def said(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


def test_a_save_is_in_the_log_once_it_is_durable_and_comes_back(keeper: CheckpointManager, tmp_path: Path) -> None:
    for step in (4, 8):
        keeper.save(step, live(step), at_end=step == 8)
    keeper.wait()
    lines = said(tmp_path)
    assert [(line["event"], line["step"], line["closing"]) for line in lines] == [("checkpoint", 4, False), ("checkpoint", 8, True)]
    assert all(line["save_s"] > 0 and line["blocking"] > 0 and line["checksum_s"] > 0 and line["bytes"] > 64 for line in lines)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [checkpoint_name(8)]
    other = live(0.0)
    assert keeper.load(other)[::2] == (8, ())
    assert torch.equal(other.model.weight, live(8.0).model.weight)
    assert isinstance(keeper.evict_from_page_cache(), bool) and keeper.on_all_ranks(here=True) and not keeper.on_all_ranks(here=False)


def test_nothing_there_is_nothing_to_resume(keeper: CheckpointManager) -> None:
    with pytest.raises(NothingToResume, match=r"checkpoints$"):
        keeper.load(live())


@pytest.mark.fault("the disk fills while a checkpoint is written", ends="an error", keeps="the checkpoint before it")
def test_a_disk_that_is_full_is_heard_of(keeper: CheckpointManager, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with pytest.raises(OSError, match="checkpoints"):
        keeper.save(4, live(), at_end=False)
        while True:
            keeper.check()
    assert said(tmp_path) == []
