"""Callbacks in the loops of the libraries themselves."""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from plumbline.reporter import plumbline_callbacks, plumbline_report


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    target = tmp_path / "events"
    target.touch()
    monkeypatch.setenv("PLUMBLINE_REPORT", str(target))
    monkeypatch.setattr(plumbline_report, "_state", {"fd": None, "next": 0, "wait": 0})
    yield lambda: [json.loads(line) for line in target.read_text().splitlines()]
    fd = plumbline_report._state["fd"]
    if fd:
        os.close(fd)


class Pairs(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, n: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((3,), float(n)), "labels": torch.tensor(float(n))}


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.inner(x).squeeze(-1) - labels) ** 2).mean()}


def trainer(folder: Path, steps: int) -> Any:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=steps,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        logging_steps=2,
        save_steps=4,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    return Trainer(
        model=Linear(), args=arguments, train_dataset=Pairs(), eval_dataset=Pairs(), callbacks=[plumbline_callbacks.HuggingFace()]
    )


def test_hugging_face(tmp_path: Path, events: Any) -> None:
    trainer(tmp_path, 4).train()
    found = events()
    assert [(e["event"], e["step"], "loss" in e, e.get("samples")) for e in found] == [
        ("step", 0, False, 4),
        ("step", 1, True, 4),
        ("step", 2, False, 4),
        ("step", 3, True, 4),
        ("checkpoint", 3, False, None),
    ]
    steps = found[:4]
    assert all(one["ended"] == two["began"] for one, two in pairwise(steps))
    assert found[4]["path"].endswith("checkpoint-4") and found[4]["bytes"] > 0
    resumed = trainer(tmp_path, 6)
    resumed.train(resume_from_checkpoint=True)
    assert [(e["event"], e["step"]) for e in events()[5:8]] == [("loaded", 4), ("step", 4), ("step", 5)]
    resumed.evaluate()
    assert events()[-1]["scores"]["eval_loss"] > 0


def test_accelerate(events: Any) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, log_with=plumbline_callbacks.Accelerate(tokens=64))
    accelerator.init_trackers("mine", {"lr": 0.1})
    for n in range(2):
        accelerator.log({"train_loss": 2.5 - n}, step=n)
    accelerator.log({"accuracy": 0.5})
    accelerator.end_training()
    assert [(e["event"], e["step"], e.get("loss"), e.get("tokens")) for e in events()] == [
        ("step", 0, 2.5, 64),
        ("step", 1, 1.5, 64),
        ("evaluated", 1, None, None),
    ]


def test_lightning(tmp_path: Path, events: Any) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Linear()

        def training_step(self, batch: Any, n: int) -> Any:
            return self.model(**batch)["loss"]

        def validation_step(self, batch: Any, n: int) -> None:
            self.log("val_loss", self.model(**batch)["loss"])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    loader = torch.utils.data.DataLoader(Pairs(), batch_size=2)
    lightning.Trainer(
        max_steps=3,
        accumulate_grad_batches=2,
        accelerator="cpu",
        logger=False,
        default_root_dir=tmp_path,
        callbacks=[plumbline_callbacks.Lightning(samples=4)],
    ).fit(Module(), loader, loader)
    found = events()
    assert [(e["step"], e["samples"]) for e in found if e["event"] == "step"] == [(0, 4), (1, 4), (2, 4)]
    assert all(e["loss"] > 0 for e in found if e["event"] == "step")
    assert [e["scores"]["val_loss"] > 0 for e in found if e["event"] == "evaluated"] == [True]


def test_a_name_that_is_no_callback() -> None:
    with pytest.raises(AttributeError, match="Keras"):
        plumbline_callbacks.Keras  # noqa: B018


def test_two_files_of_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a trial puts them on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(Path(plumbline_report.__file__).parent))
    try:
        import plumbline_callbacks as alone  # type: ignore[import-not-found]

        assert alone.report.__name__ == "plumbline_report"
    finally:
        for name in ("plumbline_callbacks", "plumbline_report"):
            sys.modules.pop(name, None)
