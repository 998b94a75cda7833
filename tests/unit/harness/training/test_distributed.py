"""One rank of one: what the process group is asked for, with a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from plumbline.harness.training.closing import _tensors as tensors
from plumbline.harness.training.distributed import Peers, lost_a_peer, serve
from plumbline.harness.training.models import build
from plumbline.harness.training.network import gloo_interface
from plumbline.harness.training.plan import Group

SHAPE = {"architecture": "gpt", "layers": 1, "width": 16, "heads": 2, "vocabulary": 32, "context": 8, "seed": 3}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peers]:
    for name, value in gloo_interface("127.0.0.1").items():
        monkeypatch.setenv(name, value)
    store, port = serve("127.0.0.1")
    found = Peers(Group(0, 1, 0, 1, "gloo", "127.0.0.1", port, "run"), torch.device("cpu"))
    yield found
    found.leave()
    del store


def test_state_is_shared_whole(peers: Peers) -> None:
    model = build(SHAPE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.zeros(1, 4, dtype=torch.int64)).mean().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "step": 7}
    shared = peers.share(state)
    assert shared["step"] == 7 and torch.equal(shared["rng"], state["rng"])
    other = build(SHAPE | {"seed": 4})
    theirs = torch.optim.AdamW(other.parameters(), fused=True)
    other.load_state_dict(shared["model"])
    theirs.load_state_dict(shared["optimizer"])
    mine, found = tensors(model, optimizer), tensors(other, theirs)
    assert mine.keys() == found.keys() and all(torch.equal(mine[key], found[key]) for key in mine)


def test_gradients_are_the_models_own_and_the_wait_for_others_is_seen(peers: Peers) -> None:
    alone, model = build(SHAPE), build(SHAPE)
    replica = peers.replicate(model)
    ids = torch.arange(8)[None]
    alone(ids).square().mean().backward()
    replica(ids).square().mean().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(alone.parameters(), model.parameters(), strict=True))
    assert 0 < peers.exposed()() < 60e9


def test_gradients_of_all_micro_batches_but_the_last_stay_here(peers: Peers) -> None:
    replica = peers.replicate(build(SHAPE))
    with peers.silent():
        replica(torch.arange(8)[None]).mean().backward()
    assert peers._ready_ns == 0
    replica(torch.arange(8)[None]).mean().backward()
    assert peers._ready_ns > 0


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RuntimeError("[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:171."), True),
        (torch.distributed.DistBackendError("NCCL communicator was aborted"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("gloo"), False),
    ],
)
def test_an_error_that_says_that_another_rank_is_gone(error: Exception, lost: bool) -> None:
    assert lost_a_peer(error) is lost
