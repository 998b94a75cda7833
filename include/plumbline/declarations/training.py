"""A training workload: model, data, batch, steps, checkpoints, fault."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workload import Seed, Workload


class TransformerShape(Declared):
    """A decoder-only transformer by its dimensions; weights are random from `seed`, nothing is downloaded."""

    architecture: Literal["gpt"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536, description="size of the residual stream; a multiple of heads")
    heads: int = Field(ge=1, le=512)
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576, description="longest sequence, in tokens")
    seed: Seed = 7

    @model_validator(mode="after")
    def _divisible(self) -> TransformerShape:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}; expected width = heads × head size")
        return self

    @property
    def parameters(self) -> int:
        """Trainable parameters: token and position embeddings, blocks (attention, MLP, norms with biases), final norm, untied head."""
        block = 12 * self.width**2 + 13 * self.width
        return (2 * self.vocabulary + self.context) * self.width + self.layers * block + 2 * self.width


class TrainingData(Declared):
    """Token ids in a memory-mapped file that the harness generates once from `seed` (a Markov chain: there is something to learn)."""

    source: Literal["synthetic"]
    tokens: int = Field(ge=1024, le=10**12)
    seed: Seed = 11


class Batch(Declared):
    """Sequences a step: `micro` at a time on each process, `accumulation` times."""

    micro: int = Field(ge=1, le=65536)
    accumulation: int = Field(1, ge=1, le=4096)
    sequence: int = Field(ge=2, le=1_048_576, description="tokens a sequence")


class Optimizer(Declared):
    name: Literal["adamw"]
    learning_rate: float = Field(gt=0, lt=10)
    weight_decay: float = Field(0.0, ge=0, lt=10)


class Steps(Declared):
    """`discard` steps are warm-up, the next `measure` are the steady state."""

    discard: int = Field(ge=1, le=100_000)
    measure: int = Field(ge=5, le=10_000_000)


class Checkpoint(Declared):
    """A checkpoint after every `every` steps; the newest `keep` stay on disk."""

    every: int = Field(ge=1)
    keep: int = Field(2, ge=1, le=100)


class Parallelism(Declared):
    """How many processes train together, one replica each (DDP: gradients are averaged over all of them every step).

    Processes form one job: `processes` on each of `nodes`. The batch is declared for one process, so the global batch grows with them.
    """

    strategy: Literal["ddp"] = "ddp"
    nodes: int = Field(1, ge=1, le=1024, description="pods of the gang; more than one needs a kubernetes provider")
    processes: int = Field(1, ge=1, le=64, description="processes on each node: one for each accelerator")

    @property
    def world(self) -> int:
        """Processes in all."""
        return self.nodes * self.processes


class RankKill(Declared):
    """A training process is killed (SIGKILL) in the middle of step `at_step` and resumed from the newest valid checkpoint.

    Of several ranks it is the last one of the first node; all of them start again, since no step can be done without it.
    """

    inject: Literal["rank_kill"]
    at_step: int = Field(ge=1, description="counted from 0, warm-up included")


class LossCheck(Declared):
    """A speed without a correct loss is invalid: the last measured step's loss must be within `low`…`high`."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> LossCheck:
        if self.high <= self.low:
            raise ValueError(f"high {self.high} is not above low {self.low}; expected a range such as low: 2.0, high: 6.5")
        return self


class TrainingWorkload(Workload):
    """One YAML file under `include/config/workloads/training/`."""

    kind: Literal["training"]
    model: TransformerShape
    data: TrainingData
    batch: Batch
    precision: Literal["fp32", "bf16"]
    optimizer: Optimizer
    steps: Steps
    checkpoint: Checkpoint
    parallelism: Parallelism = Parallelism()
    fault: RankKill | None = None
    loss: LossCheck | None = None
    seed: Seed = 1

    @model_validator(mode="after")
    def _consistent(self) -> TrainingWorkload:
        total = self.steps.discard + self.steps.measure
        if self.batch.sequence > self.model.context:
            raise ValueError(
                f"batch.sequence {self.batch.sequence} is longer than model.context {self.model.context}; expected at most the context"
            )
        if self.checkpoint.every > total:
            raise ValueError(
                f"checkpoint.every {self.checkpoint.every} is more than the {total} steps of the trial; no checkpoint would be written"
            )
        if self.fault is not None and not self.checkpoint.every <= self.fault.at_step < total:
            raise ValueError(
                f"fault.at_step {self.fault.at_step} is outside {self.checkpoint.every}…{total - 1}; expected a step after the first checkpoint and before the end"
            )
        needed = self.batch.micro * self.batch.accumulation * (self.batch.sequence + 1) * self.parallelism.world
        if self.data.tokens < needed:
            raise ValueError(f"data.tokens {self.data.tokens} is less than one step's batch; expected at least {needed}")
        if self.parallelism.processes > self.needs.count:
            raise ValueError(
                f"parallelism.processes {self.parallelism.processes} is more than the {self.needs.count} {self.needs.accelerator} that needs.count asks for; "
                f"expected needs.count: {self.parallelism.processes} or more, one for each process of a node"
            )
        return self

    @property
    def tokens_per_step(self) -> int:
        """Trained tokens of one optimizer step on one process."""
        return self.batch.micro * self.batch.accumulation * self.batch.sequence

    @property
    def nodes(self) -> int:
        """Nodes that one trial takes at a time: pods of its gang."""
        return self.parallelism.nodes
