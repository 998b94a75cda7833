"""The most that checkpoints take of a disk at one time, for the checkpoints and faults of each shipped workload with a small model."""

from __future__ import annotations

import gc
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fakes.trials import CONFIG
from tests.unit.harness.training.conftest import TINY

from plumbline.declarations import TrainingWorkload, load
from plumbline.declarations.compatibility import checkpoints_at_most, scratch_needed
from plumbline.harness.training.checkpoint import folder as checkpoint
from plumbline.harness.training.checkpoint.folder import CheckpointManifest, draft_path
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.job.job import isolate_fault_checkpoint
from plumbline.harness.training.plan import plan_fault, run_spec
from plumbline.harness.training.worker import trainer
from plumbline.harness.training.worker.trainer import Trainer
from plumbline.harness.training.worker_protocol import RunName, StepLog

EVERY = 6
SHIPPED = {name: workload for name, workload in load(CONFIG).workloads.items() if isinstance(workload, TrainingWorkload)}


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    gc.unfreeze()


def small(shipped: TrainingWorkload) -> TrainingWorkload:
    """As many checkpoints, kept and written as the shipped workload's, the fault in the same place between them."""
    every, total = shipped.checkpoint.every, shipped.steps.total
    changed: dict[str, Any] = {
        "model": TINY["model"] | {"width": 128, "vocabulary": 512},
        "steps": {"discard": 1, "measure": math.ceil(total * EVERY / every) - 1},
        "checkpoint": shipped.checkpoint.model_dump(mode="json") | {"every": EVERY},
        "optimizer": {"name": shipped.optimizer.name, "learning_rate": 0.001},
        "fault": None,
    }
    if shipped.fault is not None and not shipped.pod_deletions:
        inside = shipped.fault.inject == "checkpoint_kill"
        place = shipped.fault.at_step // every * EVERY + (EVERY - 1 if inside else 1)
        changed["fault"] = {"inject": shipped.fault.inject if inside else "rank_kill", "at_step": place}
    return TrainingWorkload.model_validate_json(json.dumps(TINY | changed))


def most_bytes(workload: TrainingWorkload, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """(bytes of all checkpoints and drafts when they were most, bytes of one) in the runs of a trial, whose disk is looked at before a draft
    becomes a checkpoint."""
    plain, seen, largest = checkpoint.publish, list[int](), 0

    def size(path: Path) -> int:
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

    def publish(draft: Path, final: Path, manifest: CheckpointManifest) -> None:
        nonlocal largest
        seen.append(sum(size(folder / name) for name in ("checkpoints", "fault-checkpoints")))
        largest = max(largest, size(draft))
        plain(draft, final, manifest)

    monkeypatch.setattr(checkpoint, "publish", publish)
    for check in ("_verify_checkpoint", "matmul_flops", "_drawn_again"):  # they write nothing
        monkeypatch.setattr(trainer, check, lambda *_, **__: None)
    fault, data = plan_fault(workload), prepare_inputs(workload, folder)

    def train(name: RunName, *, resume: bool) -> None:
        spec = run_spec(name, workload, data, folder, device="cpu", resume=resume)
        Trainer(spec, StepLog(Path(spec.log))).run()

    train("run", resume=False)
    if fault is not None:
        isolate_fault_checkpoint(folder, fault)
        if fault.inside == "checkpoint":  # what a rank that is killed in it leaves
            shutil.copytree(next((folder / "fault-checkpoints").iterdir()), draft_path(folder / "fault-checkpoints", fault.until))
        train("recovery", resume=True)
    return max(seen), largest


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_computed_scratch_holds_what_the_runs_of_a_trial_leave_on_the_disk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = small(SHIPPED[name])
    needed = scratch_needed(workload)
    assert needed is not None
    most, one = most_bytes(workload, tmp_path, monkeypatch)
    assert most <= needed.checkpoints * 1.1
    assert round(most / one) <= checkpoints_at_most(workload)
    assert one == pytest.approx(needed.checkpoints / checkpoints_at_most(workload), rel=0.1)


def test_a_recovery_writes_beside_the_checkpoints_of_the_run_and_the_one_that_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = small(SHIPPED["pretrain-8b-8gpu"])
    most, one = most_bytes(workload, tmp_path, monkeypatch)
    assert round(most / one) == workload.checkpoint.keep + 2 == checkpoints_at_most(workload)
    without = workload.model_copy(update={"fault": None})
    assert checkpoints_at_most(without) == without.checkpoint.keep + 1
