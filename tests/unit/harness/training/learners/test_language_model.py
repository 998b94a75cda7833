"""Next-token prediction: what counts in the loss, and where it starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from plumbline.harness.training.learners import build_learner

STORED = {"kind": "language_model", "initial": "stored", "response_share": "25%"}


def test_the_loss_falls(learned: Any) -> None:
    _, losses = learned(25)
    assert losses[-1] < losses[0] - 0.3


def test_only_responses_count(orders_of: Any) -> None:
    learner = build_learner(orders_of(task=STORED), 0, 1)
    (ids,) = learner.batch(0)
    with torch.no_grad():
        logits = learner.model(ids[:, :-1])
        whole = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        responses = F.cross_entropy(logits[:, 12:].flatten(0, 1), ids[:, 13:].flatten())
        loss = learner.loss(learner.model, (ids,))
    torch.testing.assert_close(loss, responses)
    assert not torch.allclose(loss, whole)


def test_what_is_read_before_the_response_still_matters(orders_of: Any) -> None:
    learner = build_learner(orders_of(task=STORED), 0, 1)
    (ids,) = learner.batch(0)
    changed = ids.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 64
    with torch.no_grad():
        assert learner.loss(learner.model, (ids,)) != learner.loss(learner.model, (changed,))


@pytest.mark.parametrize("architecture", ["gpt", "llama"])
def test_stored_weights_are_those_of_the_seed(orders_of: Any, architecture: str) -> None:
    gpt = {"architecture": "gpt", "layers": 2, "width": 16, "heads": 2, "vocabulary": 64, "context": 32}
    model = {"model": gpt} if architecture == "gpt" else {}
    spec = orders_of(task=STORED, **model)
    stored, drawn = build_learner(spec, 0, 1), build_learner(orders_of(**model), 0, 1)
    assert stored.weights_load_s is not None and stored.weights_load_s > 0
    assert drawn.weights_load_s is None
    mine, other = stored.model.state_dict(), drawn.model.state_dict()
    assert mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)


def test_stored_weights_are_read_from_the_file(orders_of: Any) -> None:
    from safetensors.torch import load_file, save_file

    spec = orders_of(task=STORED)
    assert spec.weights is not None
    found = load_file(spec.weights)
    save_file({name: tensor + 1 for name, tensor in found.items()}, spec.weights)
    state = build_learner(spec, 0, 1).model.state_dict()
    assert all(torch.equal(state[name], tensor + 1) for name, tensor in found.items())


@pytest.mark.full
def test_weights_are_written_once_and_again_if_damaged(orders_of: Any) -> None:
    first = Path(orders_of(task=STORED).weights)
    written, content = first.stat().st_mtime_ns, first.read_bytes()
    assert Path(orders_of(task=STORED).weights).stat().st_mtime_ns == written
    first.write_bytes(content[:-1])
    assert Path(orders_of(task=STORED).weights).read_bytes() == content
    assert {path.suffix for path in first.parent.iterdir()} == {".safetensors", ".sha256"}
