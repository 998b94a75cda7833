"""The training state as nested dictionaries, and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from plumbline.harness.training.checkpoint.state import TrainingState, flatten_state, replace_leaves

CPU = torch.device("cpu")


def live(seed: int, name: str = "AdamW") -> TrainingState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    return TrainingState(model, optimizer, torch.amp.GradScaler("cpu", enabled=False), CPU)


def step(state: TrainingState) -> None:
    state.model(torch.rand(3, 4)).square().mean().backward()
    state.optimizer.step()
    state.optimizer.zero_grad()


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_what_is_put_goes_on_as_what_was_taken(name: str) -> None:
    mine, other = live(1, name), live(2, name)
    step(mine)
    kept = mine.taken()
    leaves = {path: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for path, leaf in flatten_state(kept).items()}
    step(mine)
    other.put(replace_leaves(kept, leaves))
    step(other)
    there, here = mine.tensors(), other.tensors()
    assert there.keys() == here.keys() and all(torch.equal(there[key], here[key]) for key in there)
    assert any(key.startswith("optimizer") for key in there) == (name == "AdamW")


def test_priming_changes_no_weight_and_no_rate() -> None:
    state = live(1)
    before = {key: value.clone() for key, value in state.model.state_dict().items()}
    primed = state.state_after_first_step()
    assert all(torch.equal(primed["model"][key], before[key]) for key in before)
    assert [group["lr"] for group in primed["optimizer"]["param_groups"]] == [0.1]
    assert set(primed["optimizer"]["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}


def test_leaves_have_paths_and_find_their_way_back() -> None:
    nested: dict[str, Any] = {"a": {0: [1, None], "b": {}}, "c": (2.5,)}
    assert flatten_state(nested) == {"a.0.0": 1, "a.0.1": None, "c.0": 2.5}
    assert replace_leaves(nested, {"a.0.0": 9, "a.0.1": "x", "c.0": 3}) == {"a": {0: [9, "x"], "b": {}}, "c": [3]}


def test_a_leaf_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match=r"state\.0\.mean"):
        replace_leaves({"state": {0: {"step": 1, "mean": 2.0}}, "none": {}}, {"state.0.step": 5})
