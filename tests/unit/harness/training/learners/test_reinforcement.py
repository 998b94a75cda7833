"""Generate, then update: answers, rewards, advantages, and that the policy gets better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from plumbline.harness.training.dataset.synthetic import successors
from plumbline.harness.training.learners import build_learner

GPT = {"architecture": "gpt", "layers": 2, "width": 32, "heads": 2, "vocabulary": 64, "context": 16}
CHANGED: dict[str, Any] = {
    "task": {"kind": "reinforcement", "prompt": 4, "generate": 8, "group": 4, "temperature": 1.0},
    "batch": {"micro": 8, "accumulation": 2, "sequence": 12},
}


@pytest.fixture(params=["llama", "gpt"])
def changed(request: pytest.FixtureRequest) -> dict[str, Any]:
    return CHANGED if request.param == "llama" else {**CHANGED, "model": GPT}


def test_answers_follow_prompts_and_the_step_alone(orders_of: Any, changed: dict[str, Any]) -> None:
    spec = orders_of(**changed)
    learner, again = build_learner(spec, 0, 1), build_learner(spec, 0, 1)
    again.prepared(again.model, again.batch(2))
    torch.manual_seed(99)
    samples = learner.batch(3)
    ids, advantages, rewards = learner.prepared(learner.model, samples)
    assert ids.shape == (16, 12) and torch.equal(ids[:, :4], samples[0])
    for mine, other in zip((ids, advantages, rewards), again.prepared(again.model, again.batch(3)), strict=True):
        assert torch.equal(mine, other)
    assert not torch.equal(ids, build_learner(spec, 1, 2).prepared(learner.model, build_learner(spec, 1, 2).batch(3))[0])


def test_a_group_shares_its_prompt_and_its_advantages_cancel(orders_of: Any, changed: dict[str, Any]) -> None:
    learner = build_learner(orders_of(**changed), 0, 1)
    ids, advantages, rewards = learner.prepared(learner.model, learner.batch(0))
    for group in range(0, 16, 4):
        assert all(torch.equal(ids[group, :4], ids[other, :4]) for other in range(group, group + 4))
        assert abs(advantages[group : group + 4].sum().item()) < 1e-4
        order = rewards[group : group + 4].argsort()
        assert (advantages[group : group + 4][order].diff() >= 0).all()
    assert not ids.is_inference() and not advantages.requires_grad


def test_tokens_are_drawn_as_likely_as_the_model_says(orders_of: Any) -> None:
    learner = build_learner(orders_of(**{**CHANGED, "model": GPT}), 0, 1)
    prompt = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        chances = torch.softmax(learner.model(prompt)[0, -1], dim=-1)
    even = (torch.arange(4000) + 0.5) / 4000
    ids, _, _ = learner.prepared(learner.model, (prompt.expand(4000, 4), even[:, None].expand(4000, 8)))
    seen = torch.bincount(ids[:, 4], minlength=64) / 4000
    assert (seen - chances).abs().max() < 1e-3


def test_the_cache_changes_no_answer(orders_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from plumbline.harness.training import models

    learner = build_learner(orders_of(**CHANGED), 0, 1)
    cached = learner.prepared(learner.model, learner.batch(0))[0]
    monkeypatch.setattr(models, "new_cache", lambda model: None)
    assert torch.equal(cached, learner.prepared(learner.model, learner.batch(0))[0])


def test_what_the_text_could_have_said_is_rewarded(orders_of: Any) -> None:
    learner = build_learner(orders_of(**CHANGED), 0, 1)
    follows = successors(64, 5)

    class Knowing(torch.nn.Module):
        """Says the first successor of the last token, or what never follows it."""

        def __init__(self, right: bool) -> None:
            super().__init__()
            self.right = right

        def forward(self, ids: torch.Tensor, cache: Any = None) -> torch.Tensor:
            logits = torch.full((*ids.shape, 64), -1e9)
            for row, token in enumerate(ids[:, -1].tolist()):
                never = next(t for t in range(64) if t not in follows[token])
                logits[row, -1, int(follows[token, 0]) if self.right else never] = 0.0
            return logits

    for right in (True, False):
        _, advantages, rewards = learner.prepared(Knowing(right), learner.batch(0))
        assert rewards.tolist() == [float(right)] * 16
        assert advantages.tolist() == [0.0] * 16


def test_the_loss_is_the_missing_reward_and_its_gradient_the_policys(orders_of: Any) -> None:
    learner = build_learner(orders_of(**CHANGED), 0, 1)
    ids, advantages, rewards = learner.prepared(learner.model, learner.batch(0))
    loss = learner.loss(learner.model, (ids, advantages, rewards))
    torch.testing.assert_close(loss.detach(), 1.0 - rewards.mean())
    loss.backward()  # type: ignore[no-untyped-call]
    mine = [p.grad.clone() for p in learner.model.parameters() if p.grad is not None]
    learner.model.zero_grad()
    chances = torch.log_softmax(learner.model(ids[:, :-1]), dim=-1)[:, 3:]
    chosen = chances.gather(-1, ids[:, 4:, None])[..., 0]
    (-(advantages[:, None] * chosen).mean()).backward()  # type: ignore[no-untyped-call]
    theirs = [p.grad for p in learner.model.parameters() if p.grad is not None]
    assert any(grad.abs().max() > 0 for grad in mine)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_the_policy_gets_better(learned: Any) -> None:
    task, batch = {**CHANGED["task"], "group": 8}, {"micro": 64, "sequence": 12}
    _, losses = learned(50, rate=0.01, task=task, batch=batch, model=GPT)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
