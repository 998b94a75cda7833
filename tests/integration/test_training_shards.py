"""The model spread over real ranks: what it learns is what one process learns, and each holds its part alone."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.fakes.ranks import together
from torch.distributed.fsdp import FSDPModule

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training import plan
from plumbline.harness.training.checkpoint.folder import checkpoint_name
from plumbline.harness.training.checkpoint.sharded import ShardedStore
from plumbline.harness.training.checkpoint.state import TrainingState
from plumbline.harness.training.checkpoint.store import NothingToResume
from plumbline.harness.training.dataset.preparation import prepare_inputs
from plumbline.harness.training.distributed import parallelize
from plumbline.harness.training.distributed.fsdp import FsdpModel
from plumbline.harness.training.distributed.process_group import MeshLayout, RankGroups
from plumbline.harness.training.learners import build_learner
from plumbline.harness.training.models import build_model, weights_sha256
from plumbline.harness.training.worker.torch_setup import build_optimizer, clip_gradients
from plumbline.harness.training.worker_protocol import WorkerSpec

CPU = torch.device("cpu")
MEASURES_WAITS = hasattr(FSDPModule, "set_custom_reduce_scatter")
"""PyTorch 2.7 does not."""
STEPS = 4
CLIP = 0.5
GPT = {"architecture": "gpt", "layers": 2, "width": 32, "heads": 2, "vocabulary": 64, "context": 16, "seed": 3}
LLAMA = {
    "architecture": "llama",
    "layers": 2,
    "width": 64,
    "heads": 4,
    "kv_heads": 2,
    "feed_forward": 96,
    "vocabulary": 64,
    "context": 16,
    "seed": 3,
}


def orders(folder: Path, model: dict[str, Any]) -> WorkerSpec:
    workload = TrainingWorkload.model_validate_json(
        json.dumps(
            {
                "kind": "training",
                "name": "tiny",
                "version": 1,
                "needs": {"accelerator": "cpu"},
                "model": model,
                "data": {"source": "synthetic", "tokens": 4096, "seed": 5},
                "batch": {"micro": 2, "accumulation": 2, "sequence": 16},
                "precision": "fp32",
                "optimizer": {"name": "adamw", "learning_rate": 0.01},
                "steps": {"discard": 1, "measure": 5},
                "checkpoint": {"every": 1},
                "repeats": {"per_slot": 1, "slots": ["02:00"]},
            }
        )
    )
    return plan.undisturbed_spec(workload, prepare_inputs(workload, folder), folder, device="cpu")


class Part:
    """One rank's part of a training, as the loop builds it."""

    def __init__(self, peers: RankGroups, spec: WorkerSpec, shape: tuple[int, int, int], precision: str = "fp32") -> None:
        group = peers.group
        self.layout = MeshLayout(group.rank, *shape, group.world // group.nodes)
        self.learner = build_learner(replace(spec, group=group), group.rank // self.layout.tensor, group.world // self.layout.tensor)
        self.parallel = FsdpModel(self.learner, self.layout, precision, spec.parallelism["reduce_precision"], CPU, drawn=True)
        optimizer = build_optimizer(spec.optimizer, self.learner.model.parameters())
        self.state = TrainingState(self.learner.model, optimizer, torch.amp.GradScaler("cpu", enabled=False), CPU)
        self.spec = spec

    def train(self, first: int = 0, until: int = STEPS) -> tuple[list[float], list[int]]:
        losses, waits = [], []
        for step in range(first, until):
            total = 0.0
            for number, part in enumerate(zip(*(some.split(self.spec.micro) for some in self.learner.batch(step)), strict=True)):
                with nullcontext() if number == self.spec.accumulation - 1 else self.parallel.silent():
                    loss = self.learner.loss(self.parallel.replica, part) / self.spec.accumulation
                    total += loss.item()
                    loss.backward()
                if (waited := self.parallel.exposed()) is not None:
                    waits.append(waited())
            clip_gradients(self.state.optimizer, CLIP)
            self.state.optimizer.step()
            self.state.optimizer.zero_grad()
            losses.append(total)
        return losses, waits

    def held(self) -> tuple[int, int]:
        """(numbers of the model that this rank holds, numbers of the whole model)."""
        parameters = list(self.learner.model.parameters())
        here = sum(getattr(parameter, "to_local", lambda parameter=parameter: parameter)().numel() for parameter in parameters)
        return here, sum(parameter.numel() for parameter in parameters)


def reference(spec: WorkerSpec, replicas: int) -> list[float]:
    """The losses of one process that takes the global batch, in a loop that shares nothing with the others but model and data."""
    learners = [build_learner(spec, replica, replicas) for replica in range(replicas)]
    model = learners[0].model
    optimizer = torch.optim.AdamW(model.parameters(), lr=spec.optimizer["learning_rate"], weight_decay=spec.optimizer["weight_decay"])
    losses = []
    for step in range(STEPS):
        loss = torch.stack([learner.loss(model, learner.batch(step)) for learner in learners]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def trained(peers: RankGroups, spec: WorkerSpec, shapes: list[tuple[int, int, int]], precision: str) -> list[Any]:
    found = []
    for shape in shapes:
        part = Part(peers, spec, shape, precision)
        found.append((*part.train(), *part.held()))
    return found


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(losses) / len(rows) for losses in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("model", "count", "shapes", "most"),
    [
        (GPT, 2, [(1, 2, 1)], [0.52]),  # two parts of one replica
        pytest.param(GPT, 4, [(1, 4, 1), (2, 2, 1)], [0.27, 0.52], marks=pytest.mark.full),  # four parts of one replica; two of two
        # two parts of each layer, sharded; two of each layer, replicated
        pytest.param(LLAMA, 4, [(1, 2, 2), (2, 1, 2)], [0.3, 0.6], marks=pytest.mark.full),
    ],
)
def test_ranks_learn_what_one_process_learns_and_hold_a_part_each(
    tmp_path: Path, model: dict[str, Any], count: int, shapes: list[tuple[int, int, int]], most: list[float]
) -> None:
    spec = orders(tmp_path, model)
    ranks = together(trained, count, spec, shapes, "fp32")
    for number, shape in enumerate(shapes):
        alone = reference(spec, shape[0] * shape[1])
        assert alone[-1] < alone[0]
        assert mean([rank[number][0] for rank in ranks]) == pytest.approx(alone, abs=1e-4)
        for _, waits, here, whole in (rank[number] for rank in ranks):
            assert here / whole < most[number]
            assert len(waits) == (STEPS if MEASURES_WAITS else 0) and all(0 < wait < 60e9 for wait in waits)


def trained_by_an_older_torch(peers: RankGroups, spec: WorkerSpec) -> list[float]:
    if MEASURES_WAITS:
        del FSDPModule.set_custom_reduce_scatter
    losses, waits = Part(peers, spec, (1, 2, 1)).train()
    assert waits == []
    return losses


@pytest.mark.full
def test_a_release_that_cannot_time_reductions_learns_the_same_and_reports_no_wait(tmp_path: Path) -> None:
    spec = orders(tmp_path, GPT)
    assert mean(together(trained_by_an_older_torch, 2, spec)) == pytest.approx(reference(spec, 2), abs=1e-4)


@pytest.mark.full
def test_layers_shared_by_the_only_replica(tmp_path: Path) -> None:
    spec = orders(tmp_path, LLAMA)
    ranks = together(trained, 2, spec, [(1, 1, 2)], "fp32")
    alone = reference(spec, 1)
    for ((losses, waits, here, whole),) in ranks:
        assert losses == pytest.approx(alone, abs=1e-4)
        assert here / whole < 0.65 and waits == []  # no gradients to share, so no time that they took


@pytest.mark.full
def test_products_in_bf16_beside_fp32_weights(tmp_path: Path) -> None:
    spec = orders(tmp_path, GPT)
    ranks = together(trained, 2, spec, [(1, 2, 1)], "bf16")
    alone, losses = reference(spec, 2), mean([rank[0][0] for rank in ranks])
    assert losses == pytest.approx(alone, rel=0.02) and losses != pytest.approx(alone, abs=1e-6)


def reduced(peers: RankGroups, spec: WorkerSpec) -> list[tuple[torch.dtype, int]]:
    """(type, micro-batches) of each reduction over ranks in one step, the micro-batches that its gradients are of."""
    part, found = Part(peers, spec, (1, 2, 1)), list[tuple[torch.dtype, int]]()
    plain, backward = dist.reduce_scatter_tensor, 0

    def counted(output: torch.Tensor, given: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        found.append((given.dtype, backward))
        return plain(output, given, *arguments, **named)

    dist.reduce_scatter_tensor = counted
    for number in range(spec.accumulation):
        backward = number + 1
        with nullcontext() if number == spec.accumulation - 1 else part.parallel.silent():
            part.learner.loss(part.parallel.replica, tuple(some[number : number + 1] for some in part.learner.batch(0))).backward()
    return found


@pytest.mark.full
@pytest.mark.parametrize(("reduce_precision", "kind"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_gradients_are_reduced_once_a_step_in_the_declared_type(tmp_path: Path, reduce_precision: str, kind: torch.dtype) -> None:
    spec = orders(tmp_path, GPT)
    spec = replace(spec, micro=1, accumulation=4, parallelism=spec.parallelism | {"reduce_precision": reduce_precision})
    for rank in together(reduced, 2, spec):
        assert rank == [(kind, 4)] * 3, "one for each of two layers, and one for what lies around them"


def saved_and_resumed(peers: RankGroups, spec: WorkerSpec, shape: tuple[int, int, int], beside: bool) -> dict[str, Any]:
    node = peers.group.rank // (peers.group.world // peers.group.nodes)
    folder = Path(spec.checkpoint_folder) / f"node{node}"
    savers = peers.checkpoint_groups(Part(peers, spec, shape).layout)
    shards = ShardedStore(folder, savers, keep=2, retain=frozenset())
    live = Part(peers, spec, shape)
    live.train(0, 1)
    written = [shards.begin(1, live.state.taken(), beside=False)()]
    live.train(1, 2)
    finish = shards.begin(2, live.state.taken(), beside=beside)
    if not beside:
        written.append(finish())
    kept = {name: tensor.clone() for name, tensor in live.state.tensors().items()}
    going_on, _ = live.train(2, 4)
    if beside:
        written.append(finish())
    said: dict[str, Any] = {"sizes": [saved.bytes for saved in written], "part": savers.part}

    other = Part(peers, spec, shape)
    restored = shards.load(other.state.state_after_first_step(), CPU)
    other.state.put(restored.state)
    loaded = other.state.tensors()
    said["exact"] = restored.step == 2 and kept.keys() == loaded.keys() and all(torch.equal(kept[name], loaded[name]) for name in kept)
    said["continues"] = other.train(2, 4)[0] == going_on

    savers.gather(None)
    if peers.group.rank == peers.group.world - 1:  # a file of the last node alone
        path = next(path for path in (folder / checkpoint_name(2)).iterdir() if path.suffix == ".distcp")
        path.write_bytes(path.read_bytes()[:-1])
    savers.gather(None)
    passed_over = shards.load(Part(peers, spec, shape).state.state_after_first_step(), CPU)
    said["older"], said["rejected"] = passed_over.step, passed_over.rejected

    if node == peers.group.nodes - 1:
        shards = ShardedStore(folder / "of-a-new-node", savers, keep=2, retain=frozenset())
    try:
        shards.load(Part(peers, spec, shape).state.state_after_first_step(), CPU)
    except NothingToResume as error:
        said["new node"] = str(error)
    return said


@pytest.mark.full
@pytest.mark.parametrize(("shape", "beside"), [((1, 4, 1), True), ((2, 2, 1), False)])
def test_each_of_two_nodes_keeps_its_part_and_the_newest_that_both_have_is_resumed_from(
    tmp_path: Path, shape: tuple[int, int, int], beside: bool
) -> None:
    spec = replace(orders(tmp_path, GPT), checkpoint_folder=str(tmp_path / "checkpoints"))
    ranks = together(saved_and_resumed, 4, spec, shape, beside, nodes=2)
    assert all(said["exact"] and said["continues"] for said in ranks)
    assert len({tuple(said["sizes"]) for said in ranks}) == 1
    assert len({said["part"] for said in ranks}) == 2
    assert {said["older"] for said in ranks} == {1}
    assert all(len(said["rejected"]) == 1 and "its manifest says" in said["rejected"][0] for said in ranks)
    assert all("node 1" in said["new node"] for said in ranks)


def replicated(peers: RankGroups, spec: WorkerSpec) -> tuple[str, str]:
    """The weights of a replica before and after the ranks have met."""
    learner = build_learner(replace(spec, group=peers.group), peers.group.rank, peers.group.world)
    before = weights_sha256(learner.model)
    parallelize(spec, peers.group, learner, CPU)
    return before, weights_sha256(learner.model)


@pytest.mark.full
def test_the_first_rank_draws_the_weights_of_all_replicas(tmp_path: Path) -> None:
    spec = orders(tmp_path, GPT)
    drawn = weights_sha256(build_model(spec.model))
    (first, own), (second, taken) = together(replicated, 2, spec)
    assert (first, own, taken) == (drawn, drawn, drawn) and second != drawn
