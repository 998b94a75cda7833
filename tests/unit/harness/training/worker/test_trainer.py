"""The loop in this process: every declared way to compute trains; on a GPU (where there is one) without making it wait."""

from __future__ import annotations

import gc
import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.image_requirements import ImageIncomplete
from plumbline.harness.training.checkpoint import folder as checkpoint
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.plan import undisturbed_spec
from plumbline.harness.training.worker.torch_setup import NotDeterministic, UnsupportedOption
from plumbline.harness.training.worker.trainer import NoDevice, Trainer
from plumbline.harness.training.worker_protocol import StepLog

Tiny = Callable[..., TrainingWorkload]
GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))
DEVICES = ["cpu", GPU]


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """A trainer sets torch up for its whole process; this one goes on with other tests."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(False)
    gc.unfreeze()


def trainer(workload: TrainingWorkload, folder: Path, device: str, **changed: Any) -> Trainer:
    folder.mkdir(exist_ok=True)
    spec = undisturbed_spec(workload, prepare_inputs(workload, folder), folder, device=device)
    return Trainer(replace(spec, **changed), StepLog(Path(spec.log)))


def losses(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "run.steps.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["event"] == "step"]


def trained(workload: TrainingWorkload, folder: Path, device: str, **changed: Any) -> list[float]:
    trainer(workload, folder, device, **changed).steps(0, workload.steps.total)
    return losses(folder)


SHORT = {"fault": None, "checkpoint": {"every": 12}}


@pytest.mark.parametrize(("built_for", "expected"), [("12.8", NoDevice), (None, ImageIncomplete)])
def test_without_a_gpu_torchs_build_says_whose_fault_it_is(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built_for: str | None, expected: type[Exception]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(expected):
        trainer(tiny(**SHORT), tmp_path / "folder", "cuda")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_each_precision_learns_the_same_or_says_what_would_work(tiny: Tiny, tmp_path: Path, device: str, precision: str) -> None:
    if device == "cpu" and precision in ("tf32", "fp16"):
        with pytest.raises(UnsupportedOption, match=f"^precision {precision} .*bf16"):
            trained(tiny(**SHORT), tmp_path / precision, device, precision=precision)
        return
    expected = trained(tiny(**SHORT), tmp_path / "fp32", device)
    found = trained(tiny(**SHORT), tmp_path / "found", device, precision=precision)
    assert len(found) == 12 and found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("changed", [{"activation_checkpointing": True}, {"attention": "math"}, {"attention": "flash"}])
def test_how_it_is_computed_changes_no_result(tiny: Tiny, tmp_path: Path, device: str, changed: dict[str, Any]) -> None:
    # A GPU's flash kernels know no fp32.
    precision = "bf16" if device == "cuda" else "fp32"
    expected = trained(tiny(**SHORT), tmp_path / "plain", device, precision=precision)
    assert trained(tiny(**SHORT), tmp_path / "changed", device, precision=precision, **changed) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_deterministic_training_gives_the_same_losses_twice(tiny: Tiny, tmp_path: Path, device: str) -> None:
    first = trained(tiny(**SHORT), tmp_path / "a", device, deterministic=True)
    assert trained(tiny(**SHORT), tmp_path / "b", device, deterministic=True) == first


def test_an_operation_without_a_deterministic_kernel_is_named(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = trainer(tiny(**SHORT), tmp_path, "cpu", deterministic=True)
    learner = one._learner
    honest = learner.loss

    def loss(model: torch.nn.Module, samples: tuple[torch.Tensor, ...]) -> torch.Tensor:
        # torch has no deterministic kernel for this one, on a CPU either.
        torch.zeros(4).put_(torch.tensor([0, 0]), torch.ones(2))
        return honest(model, samples)

    monkeypatch.setattr(learner, "loss", loss)
    with pytest.raises(NotDeterministic, match="put_"):
        one.steps(0, 1)


def test_an_attention_kernel_that_is_not_there_is_named(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOption, match=r"^attention cudnn"):
        trainer(tiny(**SHORT), tmp_path, "cpu", attention="cudnn").steps(0, 1)


def test_steps_can_be_done_in_parts(tiny: Tiny, tmp_path: Path) -> None:
    whole = trained(tiny(**SHORT), tmp_path / "whole", "cpu")
    parts = trainer(tiny(**SHORT), tmp_path / "parts", "cpu")
    for first in range(0, 12, 4):
        parts.steps(first, first + 4)
    assert losses(tmp_path / "parts") == whole and all(math.isfinite(loss) for loss in whole)


def checked(workload: TrainingWorkload, folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> tuple[list[dict[str, Any]], int]:
    """The lines of the loads that are verified after a whole run, and how many checksums of states were taken in it."""
    one, summed, plain = trainer(workload, folder, "cpu", **changed), list[Path](), checkpoint.blocks_sha256

    def counted(path: Path, threads: int) -> str:
        summed.append(path)
        return plain(path, threads)

    monkeypatch.setattr(checkpoint, "blocks_sha256", counted)
    one.run()
    lines = map(json.loads, (folder / "run.steps.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == "verified_load"], sum(path.name not in ("values.pt", ".metadata") for path in summed)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_three_loads_are_compared_and_one_checksum_of_them_is_taken(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    loads, sums = checked(tiny(**SHORT), tmp_path, monkeypatch, checkpoint_mode=mode)
    assert [load["equal"] for load in loads] == [True] * 3
    assert sums == 2, "one after the save, one with the first load"


def test_no_load_is_repeated_where_the_trials_time_limit_is_near(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, _ = checked(tiny(**SHORT), tmp_path, monkeypatch, end_by_ns=0)
    assert [load["equal"] for load in loads] == [True]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_nothing_in_the_loop_makes_the_gpu_wait(tiny: Tiny, tmp_path: Path, precision: str) -> None:
    one = trainer(tiny(**SHORT), tmp_path, "cuda", precision=precision, checkpoint_every=10**6)
    one.steps(0, 5)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            one.steps(5, 12)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [str(warning.message) for warning in seen if "synchroniz" in str(warning.message)] == []
