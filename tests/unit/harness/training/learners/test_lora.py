"""Low-rank adapters: what learns, what is kept, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from plumbline.declarations.workloads.models import LlamaShape
from plumbline.declarations.workloads.training import Lora
from plumbline.harness.training.learners import build_learner
from plumbline.harness.training.models import weights_sha256
from plumbline.kinds.arithmetic.flops import adapter_parameters

ALL = ["query", "key", "value", "output", "feed_forward"]


def task(*targets: str) -> dict[str, Any]:
    return {"kind": "lora", "rank": 4, "alpha": 8, "targets": list(targets)}


@pytest.mark.parametrize("targets", [("query", "value"), ("feed_forward",), tuple(ALL)])
def test_adapters_alone_learn_and_they_are_as_many_as_counted(orders_of: Any, targets: tuple[str, ...]) -> None:
    spec = orders_of(task=task(*targets))
    model = build_learner(spec, 0, 1).model
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in name for name in learning)
    declared = Lora.model_validate({**task(*targets), "targets": targets})
    assert sum(p.numel() for p in learning.values()) == adapter_parameters(LlamaShape.model_validate(spec.model), declared)


def test_the_base_stays_and_the_loss_falls(learned: Any) -> None:
    learner, losses = learned(25, rate=0.03, task=task(*ALL))
    assert losses[-1] < losses[0] - 0.1
    untouched, _ = learned(0, task=task(*ALL))
    before = dict(untouched.model.named_parameters())
    for name, parameter in learner.model.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad


def test_the_state_is_what_learns_and_goes_back_into_a_fresh_model(learned: Any) -> None:
    learner, _ = learned(5, task=task("query", "value"))
    state = learner.model.state_dict()
    assert state.keys() == {name for name, p in learner.model.named_parameters() if p.requires_grad}
    fresh, _ = learned(0, task=task("query", "value"))
    fresh.model.load_state_dict(state)
    batch = learner.batch(9)
    assert torch.equal(fresh.loss(fresh.model, batch), learner.loss(learner.model, batch))


def test_a_state_without_an_adapter_is_refused(learned: Any) -> None:
    learner, _ = learned(0, task=task("query"))
    state = learner.model.state_dict()
    state.popitem()
    with pytest.raises(RuntimeError, match="Missing key"):
        learner.model.load_state_dict(state)


def test_adapters_follow_from_the_seed(orders_of: Any) -> None:
    spec = orders_of(task=task("query"))
    torch.manual_seed(99)
    first = weights_sha256(build_learner(spec, 0, 1).model)
    torch.manual_seed(5)
    assert weights_sha256(build_learner(spec, 1, 2).model) == first


def test_a_model_without_the_projection_is_refused(orders_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from plumbline.harness.training import learners

    spec = orders_of(task=task("query"))
    monkeypatch.setitem(learners.TARGET_MODULES, "query", ("Wqkv",))
    with pytest.raises(ValueError, match=r"^task.targets \['query'\]: .*Wqkv"):
        build_learner(spec, 0, 1)
