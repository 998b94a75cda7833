"""One rank of one: what the process group is asked for, with a real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from plumbline.harness.gang.channel import gloo_environment, serve_rendezvous_store
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.distributed import DdpModel
from plumbline.harness.training.distributed.process_group import RankGroups, is_peer_lost
from plumbline.harness.training.models import build_model
from plumbline.harness.training.worker_protocol import ProcessGroupSpec

SHAPE = {"architecture": "gpt", "layers": 1, "width": 16, "heads": 2, "vocabulary": 32, "context": 8, "seed": 3}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankGroups]:
    for name, value in gloo_environment("127.0.0.1").items():
        monkeypatch.setenv(name, value)
    store, port = serve_rendezvous_store("127.0.0.1")
    found = RankGroups(ProcessGroupSpec(0, 1, 0, 1, "gloo", "127.0.0.1", port, "run"), torch.device("cpu"))
    yield found
    found.leave()
    del store


CPU = torch.device("cpu")


def live(shape: dict[str, Any]) -> TrainingState:
    model = build_model(shape)
    return TrainingState(model, torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler("cpu", enabled=False), CPU)


def test_state_is_shared_whole(peers: RankGroups) -> None:
    mine, other = live(SHAPE), live(SHAPE | {"seed": 4})
    mine.model(torch.zeros(1, 4, dtype=torch.int64)).mean().backward()
    mine.optimizer.step()
    shared = peers.share({"step": 7, "state": mine.taken()})
    assert shared["step"] == 7 and torch.equal(shared["state"]["generators"]["cpu"], torch.get_rng_state())
    other.put(shared["state"])
    there, here = mine.tensors(), other.tensors()
    assert there.keys() == here.keys() and all(torch.equal(there[key], here[key]) for key in there)


def test_gradients_are_the_models_own_and_the_wait_for_others_is_seen(peers: RankGroups) -> None:
    alone, model = build_model(SHAPE), build_model(SHAPE)
    parallel = DdpModel(model, "fp32", CPU)
    ids = torch.arange(8)[None]
    alone(ids).square().mean().backward()
    assert parallel.exposed() is None
    parallel.replica(ids).square().mean().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(alone.parameters(), model.parameters(), strict=True))
    waited = parallel.exposed()
    assert waited is not None and 0 < waited() < 60e9


def test_gradients_of_all_micro_batches_but_the_last_stay_here(peers: RankGroups) -> None:
    parallel = DdpModel(build_model(SHAPE), "fp32", CPU)
    with parallel.silent():
        parallel.replica(torch.arange(8)[None]).mean().backward()
    assert parallel.exposed() is None
    parallel.replica(torch.arange(8)[None]).mean().backward()
    assert parallel.exposed() is not None


@pytest.mark.parametrize("reduce_precision", ["fp32", "bf16"])
def test_gradients_travel_in_the_declared_type(peers: RankGroups, monkeypatch: pytest.MonkeyPatch, reduce_precision: str) -> None:
    kinds, plain = set[torch.dtype](), dist.all_reduce

    def seen(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        kinds.add(tensor.dtype)
        return plain(tensor, *arguments, **named)

    parallel = DdpModel(build_model(SHAPE), reduce_precision, CPU)
    monkeypatch.setattr(dist, "all_reduce", seen)
    parallel.replica(torch.arange(8)[None]).mean().backward()
    assert kinds == {torch.float32 if reduce_precision == "fp32" else torch.bfloat16}
    assert {parameter.grad.dtype for parameter in parallel.replica.parameters() if parameter.grad is not None} == {torch.float32}


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
    assert is_peer_lost(error) is lost
