"""A training task of another package: a declaration, a learner and one entry point."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.fakes.installation import install_package

from plumbline.declarations.workloads.training import Task
from plumbline.harness.training.learners import build_learner

TASKS: TypeAdapter[Any] = TypeAdapter(Task)
FILES = {
    "label_smoothing-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: label-smoothing\nVersion: 1\n",
    "label_smoothing-1.dist-info/entry_points.txt": "[plumbline.training_tasks]\nlabel_smoothing = label_smoothing:LabelSmoothing\n",
    "label_smoothing/__init__.py": """
from typing import Literal
from plumbline.declarations.workloads.training import TrainingTask

class LabelSmoothing(TrainingTask):
    kind: Literal["label_smoothing"]
    amount: float
    weights: tuple[float, ...] = ()
    architectures = ("gpt", "llama")
    learner = "label_smoothing.learner:SmoothedModel"
""",
    "label_smoothing/learner.py": """
from torch.nn import functional as F
from plumbline.harness.training.learners import TokenModel

class SmoothedModel(TokenModel):
    def loss(self, model, samples):
        (ids,) = samples
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=self.task["amount"])
""",
}


def test_it_is_declared_checked_and_trained(orders_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path, monkeypatch, FILES)
    declared = TASKS.validate_json('{"kind": "label_smoothing", "amount": 0.1, "weights": [1.0, 2.0]}')
    task = {"kind": "label_smoothing", "amount": 0.1, "weights": [1.0, 2.0]}
    assert TASKS.dump_python(declared, mode="json") == task and TASKS.validate_python(declared) is declared
    with pytest.raises(ValidationError):
        TASKS.validate_json('{"kind": "label_smoothing", "amount": "much"}')
    learner = build_learner(orders_of(task=task), 0, 1)
    learner.loss(learner.model, learner.batch(0)).backward()  # type: ignore[no-untyped-call]
    assert type(learner).__name__ == "SmoothedModel"


def test_a_kind_that_no_package_registers_is_refused() -> None:
    with pytest.raises(ValidationError):
        TASKS.validate_json('{"kind": "label_smoothing", "amount": 0.1}')
