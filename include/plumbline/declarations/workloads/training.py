"""A training workload: model, task, data, batch, steps, checkpoints, injected faults."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared, extensible
from plumbline.declarations.urls import DeclaredUrl
from plumbline.declarations.workloads.faults import Fault
from plumbline.declarations.workloads.loss_check import LossCheck
from plumbline.declarations.workloads.models import BertShape, HubModel, LlamaShape, TransformerShape, VitShape
from plumbline.declarations.workloads.workload import Seed, Workload
from plumbline.metrics.units import Percent

LoraTarget = Literal["query", "key", "value", "output", "feed_forward"]


class TrainingTask(Declared):
    """Base of all tasks. A package adds one: a subclass, registered under its kind in the entry point group `plumbline.training_tasks`."""

    kind: str
    architectures: ClassVar[tuple[str, ...]]
    """Values of model.architecture that can be trained for the task."""
    learner: ClassVar[str]
    """`module:class` of the learner, imported by the training process alone."""
    rate: ClassVar[str] = "tokens_per_second_per_device"
    """The metric that leads: what is trained a second, in the unit of the task; per device where the harness reports it so."""


class LanguageModel(TrainingTask):
    """Next-token prediction. Pretraining starts from random weights; fine-tuning loads `stored` ones and learns the responses alone."""

    architectures = ("gpt", "llama", "hub")
    learner = "plumbline.harness.training.learners:LanguageModel"
    kind: Literal["language_model"] = "language_model"
    initial: Literal["random", "stored"] = Field(
        "random", description="stored: every process loads the same weights from a safetensors file, as fine-tuning does"
    )
    response_share: Percent = Field(
        1.0, gt=0, le=1, description="part of each sequence, at its end, whose tokens count in the loss: what comes before is the prompt"
    )


class Lora(TrainingTask):
    """Low-rank adapters on a causal LM with frozen weights (stored ones, loaded by every process)."""

    architectures = ("llama", "hub")
    learner = "plumbline.harness.training.learners:Lora"
    kind: Literal["lora"]
    rank: int = Field(ge=1, le=1024)
    alpha: float = Field(gt=0, le=4096, description="the adapters' output is scaled by alpha / rank")
    targets: tuple[LoraTarget, ...] = Field(("query", "value"), min_length=1)
    response_share: Percent = Field(1.0, gt=0, le=1)


class Contrastive(TrainingTask):
    """Pairs of texts that belong together (InfoNCE): each text's partner against all other partners of the micro-batch."""

    architectures = ("bert",)
    learner = "plumbline.harness.training.learners:Contrastive"
    rate = "samples_per_second"
    kind: Literal["contrastive"]
    temperature: float = Field(0.05, gt=0, le=10)


class Classification(TrainingTask):
    """Each image into one of the model's classes."""

    architectures = ("vit",)
    learner = "plumbline.harness.training.learners:Classification"
    rate = "samples_per_second_per_device"
    kind: Literal["classification"]


class Reinforcement(TrainingTask):
    """Generate, then update: `group` answers of `generate` tokens to each prompt, rewarded, then one policy-gradient step on all of them.

    The advantage of an answer is its reward less its group's mean, over the group's standard deviation. Reward: share of the answer's
    tokens that the data's own process could have produced there, so that there is something to learn.
    """

    architectures = ("gpt", "llama")
    learner = "plumbline.harness.training.learners:Reinforcement"
    rate = "samples_per_second"
    kind: Literal["reinforcement"]
    prompt: int = Field(ge=1, le=1_048_576, description="tokens")
    generate: int = Field(ge=1, le=1_048_576, description="tokens of each answer, exactly")
    group: int = Field(ge=2, le=1024, description="answers to each prompt; batch.micro counts answers and is a multiple of it")
    temperature: float = Field(1.0, gt=0, le=10)


_OwnTask = Annotated[LanguageModel | Lora | Contrastive | Classification | Reinforcement, Field(discriminator="kind")]
OWN_TASKS = frozenset(get_args(each.model_fields["kind"].annotation)[0] for each in get_args(get_args(_OwnTask)[0]))
_EXTENSIBLE = extensible(_OwnTask, TrainingTask, "plumbline.training_tasks")
Task = Annotated[_OwnTask, _EXTENSIBLE.validator, _EXTENSIBLE.serializer]


TrainedModel = Annotated[TransformerShape | LlamaShape | BertShape | VitShape | HubModel, Field(discriminator="architecture")]
TrainingPrecision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]
"""fp32: of everything. tf32: fp32 whose matrix products round their factors. bf16, fp16, fp8: of matrix products, beside fp32 weights."""


class SyntheticTokens(Declared):
    """Token ids in a memory-mapped file that the harness generates once from `seed` (a learnable Markov chain)."""

    source: Literal["synthetic"]
    tokens: int = Field(ge=1024, le=10**12)
    seed: Seed = 11


class SyntheticImages(Declared):
    """Images (uint8, three channels) in a memory-mapped file that the harness generates once: a pattern for each class, and noise."""

    source: Literal["images"]
    images: int = Field(ge=16, le=10**9)
    seed: Seed = 11


class TokenFileData(Declared):
    """A team's own token ids: little-endian unsigned integers one after the other, in a file that every node can read."""

    source: Literal["file"]
    url: DeclaredUrl = Field(min_length=1, description="a path or an fsspec URL; fetched once into the cache")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="a series must not mix data")
    width: Literal[2, 4] = Field(description="bytes of one token id")
    tokens: int = Field(ge=1024, le=10**12)


TrainingData = Annotated[SyntheticTokens | SyntheticImages | TokenFileData, Field(discriminator="source")]


class Batch(Declared):
    """Samples a step: `micro` at a time on each process, `accumulation` times.

    A sample is a sequence of `sequence` tokens; for contrastive a pair of them, for classification an image (`sequence` is left out),
    for reinforcement an answer (its prompt and what was generated are `sequence` tokens together).
    """

    micro: int = Field(ge=1, le=65536)
    accumulation: int = Field(1, ge=1, le=4096)
    sequence: int = Field(1, ge=1, le=1_048_576, description="tokens a sequence")
    total: int | None = Field(None, ge=1, description="the global batch, samples a step over all processes, as a check")


class Optimizer(Declared):
    """`warmup` steps raise the learning rate linearly from 0; `clip` bounds the gradients' norm."""

    name: Literal["adamw", "sgd"]
    learning_rate: float = Field(gt=0, lt=10)
    weight_decay: float = Field(0.0, ge=0, lt=10)
    warmup: int = Field(0, ge=0, le=1_000_000)
    clip: float | None = Field(None, gt=0, le=1e6)


class Steps(Declared):
    """At least the first `discard` steps are warm-up; the next `measure` are measured from their steady state on."""

    discard: int = Field(ge=1, le=100_000)
    measure: int = Field(ge=5, le=10_000_000)

    @property
    def total(self) -> int:
        return self.discard + self.measure


class Checkpoint(Declared):
    """A checkpoint after every `every` steps; the newest `keep` stay on disk.

    `async`: training goes on while a copy in memory is written; the next one waits for it.
    """

    every: int = Field(ge=1)
    keep: int = Field(2, ge=1, le=100)
    mode: Literal["sync", "async"] = "sync"


class Parallelism(Declared):
    """How many processes train together: `processes` on each of `nodes`.

    `ddp`: a whole replica each, gradients averaged. `fsdp`: each process holds its part of weights, gradients and optimizer state; `shard`
    processes hold one replica together (all of them if left out), and replicas average. `tensor` processes share each layer's matrix
    products (Llama-shaped models). The batch is declared for one process; those that share a layer see the same batch, so the global
    batch grows with the others alone. Gradients are reduced over processes once a step, after its last micro-batch, in `reduce_precision`.
    """

    strategy: Literal["ddp", "fsdp"] = "ddp"
    nodes: int = Field(1, ge=1, le=1024, description="pods of the gang; more than one needs a kubernetes provider")
    processes: int = Field(1, ge=1, le=64, description="processes on each node: one for each accelerator")
    shard: int | None = Field(None, ge=2, le=65536)
    tensor: int = Field(1, ge=1, le=64)
    reduce_precision: Literal["fp32", "bf16"] = Field("fp32", description="of the gradients' reduction between processes")

    @model_validator(mode="after")
    def _divisible(self) -> Parallelism:
        if self.shard is not None and self.strategy != "fsdp":
            raise ValueError(f"shard {self.shard} with strategy {self.strategy}; expected strategy: fsdp, or no shard")
        if self.processes % self.tensor:
            raise ValueError(
                f"tensor {self.tensor} does not divide processes {self.processes}; expected processes that share a layer on one node"
            )
        if self.replicas % (self.shard or 1):
            raise ValueError(f"shard {self.shard} does not divide the {self.replicas} processes with their own batches")
        if self.reduce_precision != "fp32" and self.replicas == 1:
            raise ValueError(
                f"reduce_precision {self.reduce_precision} with a single replica, which reduces nothing; expected fp32, or processes or "
                "nodes above tensor"
            )
        if self.nodes > 1 and self.span > 1 and self.span % self.processes and self.processes % self.span:
            raise ValueError(
                f"{self.span} processes hold a replica together and each node has {self.processes}; expected one to be a multiple of the "
                "other: a node keeps checkpoints of whole replicas, or of its part of one"
            )
        return self

    @property
    def world(self) -> int:
        """Processes in all."""
        return self.nodes * self.processes

    @property
    def span(self) -> int:
        """Processes that hold one replica together."""
        return ((self.shard or self.replicas) if self.strategy == "fsdp" else 1) * self.tensor

    @property
    def replicas(self) -> int:
        """Processes with their own batches."""
        return self.world // self.tensor


class TrainingJob(Workload):
    """Base of what trains in steps: our own loop, and a team's script (script.py)."""

    kind: Literal["training"]
    steps: Steps
    parallelism: Parallelism = Parallelism()
    deterministic: bool = Field(False, description="the same losses to the bit each time: our own loop uses only kernels that do that")
    fault: Fault | None = None
    restarts: int = Field(3, ge=0, le=100, description="restarts of a run that a fault ended, before the trial fails")
    loss: LossCheck | None = None

    @property
    def job(self) -> TrainingJob:  # type: ignore[override]  # the base, of no job, cannot name this class: that would be a circle
        """See Workload."""
        return self

    @property
    def nodes(self) -> int:
        """Pods of its gang."""
        return self.parallelism.nodes

    @property
    def devices(self) -> int:
        """See Workload."""
        return self.parallelism.world

    def devices_on(self, accelerators: int) -> int:
        """See Workload."""
        return self.parallelism.processes

    @property
    def collective_ranks(self) -> int:
        """See Workload; at least two in a job of several nodes, to compare with the figure between nodes."""
        return self.parallelism.processes if self.nodes == 1 else max(self.parallelism.processes, 2)

    @property
    def step_count(self) -> int:
        """See Workload."""
        return self.steps.total

    @property
    def pod_deletions(self) -> int:
        """See Workload."""
        return self.fault.times if self.fault is not None and self.fault.replaces_pod else 0

    @property
    def replacing_fault(self) -> str:
        """See Workload."""
        return self.fault.inject if self.fault is not None and self.fault.replaces_pod else ""

    @property
    def work_per_step(self) -> tuple[Literal["tokens", "samples"], float | None]:
        """What is counted, and how much of it one step of the whole job does; None if only the job itself knows."""
        raise NotImplementedError

    @property
    def private(self) -> bool:
        """Whether documents, evidence and messages never hold what it writes."""
        return False

    @property
    def repeats_losses(self) -> bool:
        """Whether a step that is done again after a restart has the same loss, but for rounding."""
        return True

    @property
    def started_processes(self) -> int:
        """Processes that the harness starts on a node."""
        return self.parallelism.processes

    def misfit_of_fault(self, every: int | None) -> str | None:
        """Why the declared fault or loss does not fit the steps; `every`: steps between checkpoints, None without any."""
        total, fault = self.steps.total, self.fault
        if fault is not None and every is None:
            return "fault without checkpoints, from which the job would resume; expected them declared, or no fault"
        if fault is not None and every is not None and not every <= fault.at_step < total:
            return f"fault.at_step {fault.at_step} is outside {every}…{total - 1}; expected a step after the first checkpoint and before the end"
        if fault is not None and fault.replaces_pod and self.nodes > 1:
            return (
                f"fault.inject {fault.inject} with parallelism.nodes {self.nodes}; expected nodes: 1, or rank_kill or group_kill, "
                "because a gang's checkpoints are lost with its pods"
            )
        if self.loss is not None and self.loss.at_step is not None and self.loss.at_step >= total:
            return f"loss.at_step {self.loss.at_step} is after the last step; expected 0 to {total - 1}"
        return None

    def misfit_of_processes(self) -> str | None:
        """Why the processes of a node do not fit what it needs."""
        if self.parallelism.processes <= self.needs.count:
            return None
        return (
            f"parallelism.processes {self.parallelism.processes} is more than needs.count, {self.needs.count} {self.needs.accelerator}; "
            f"expected needs.count: {self.parallelism.processes} or more, one for each process of a node"
        )


class TrainingWorkload(TrainingJob):
    """One YAML file under `include/config/workloads/training/`."""

    model: TrainedModel
    task: Task = LanguageModel()
    data: TrainingData
    batch: Batch
    precision: TrainingPrecision
    compile: bool = Field(False, description="torch.compile; its time is part of the first steps and reported separately")
    attention: Literal["auto", "math", "flash", "efficient", "cudnn"] = "auto"
    activation_checkpointing: bool = Field(False, description="each layer computes its activations again in backward and keeps none")
    optimizer: Optimizer
    checkpoint: Checkpoint
    seed: Seed = 1

    @model_validator(mode="after")
    def _consistent(self) -> TrainingWorkload:
        for problem in (self._misfit_of_task, self._misfit_of_batch, self._misfit_of_steps, self._misfit_of_job):
            if (message := problem()) is not None:
                raise ValueError(message)
        return self

    def _misfit_of_task(self) -> str | None:
        architecture, task = self.model.architecture, self.task.kind
        if architecture not in self.task.architectures:
            expected = ", ".join(self.task.architectures)
            return f"model.architecture {architecture} cannot be trained for task.kind {task}; expected one of {expected}"
        images = task == "classification"
        if images != (self.data.source == "images"):
            return f"data.source {self.data.source} for task.kind {task}; expected {'images' if images else 'synthetic or file'}"
        if isinstance(self.task, Reinforcement):
            if self.data.source != "synthetic":
                return f"data.source {self.data.source} for task.kind reinforcement; expected synthetic, whose process the reward knows"
            if self.batch.micro % self.task.group:
                return f"batch.micro {self.batch.micro} is not a multiple of task.group {self.task.group}; expected whole groups of answers"
            if self.batch.sequence != self.task.prompt + self.task.generate:
                return f"batch.sequence {self.batch.sequence} is not task.prompt + task.generate; expected {self.task.prompt + self.task.generate}"
        if task == "contrastive" and self.batch.micro < 2:
            return "batch.micro 1 for task.kind contrastive; expected at least 2, since each pair is compared with the others of its micro-batch"
        return None

    def _misfit_of_batch(self) -> str | None:
        batch, context = self.batch, getattr(self.model, "context", None)
        if context is not None and batch.sequence > context:
            return f"batch.sequence {batch.sequence} is longer than model.context {context}; expected at most the context"
        if self.task.kind != "classification" and batch.sequence < 2:
            return f"batch.sequence {batch.sequence}; expected at least 2 tokens"
        if batch.total is not None and batch.total != self.samples_per_step * self.parallelism.replicas:
            return (
                f"batch.total {batch.total} is not micro {batch.micro} × accumulation {batch.accumulation} × {self.parallelism.replicas} "
                f"replicas; expected {self.samples_per_step * self.parallelism.replicas}"
            )
        available, what = (self.data.images, "images") if self.data.source == "images" else (self.data.tokens, "tokens")
        needed = self.samples_per_step * self.parallelism.replicas * self._data_per_sample
        if available < needed:
            return f"data.{what} {available} is less than one step's batch; expected at least {needed}"
        return None

    def _misfit_of_steps(self) -> str | None:
        every, total, fault = self.checkpoint.every, self.steps.total, self.fault
        if every > total:
            return f"checkpoint.every {every} is more than the {total} steps of the trial; expected at most {total}"
        if (message := self.misfit_of_fault(every)) is not None:
            return message
        if fault is not None and fault.inject == "checkpoint_kill" and (fault.at_step + 1) % every:
            return f"fault.at_step {fault.at_step} is followed by no checkpoint (every {every}); expected such as {fault.at_step // every * every + every - 1}"
        return None

    def _misfit_of_job(self) -> str | None:
        job = self.parallelism
        if (message := self.misfit_of_processes()) is not None:
            return message
        if job.tensor > 1 and not (isinstance(self.model, LlamaShape) and self.model.kv_heads % job.tensor == 0):
            return f"parallelism.tensor {job.tensor}; expected 1, or a divisor of kv_heads of a model of architecture llama"
        if job.tensor > 1 and self.task.kind == "lora":
            return f"parallelism.tensor {job.tensor} with task.kind lora, whose adapters are not split; expected 1"
        if job.strategy == "fsdp" and job.world == 1:
            return "parallelism.strategy fsdp with one process; expected processes or nodes above 1"
        if self.precision == "fp8" and job.tensor > 1:
            return f"precision fp8 with parallelism.tensor {job.tensor}; expected tensor: 1, or bf16"
        if self.precision in ("fp16", "tf32", "fp8") and self.needs.accelerator == "cpu":
            return f"precision {self.precision} needs a GPU; expected fp32 or bf16 with needs.accelerator cpu"
        if self.attention in ("flash", "efficient", "cudnn") and self.needs.accelerator == "cpu" and self.attention != "flash":
            return f"attention {self.attention} needs a GPU; expected auto, math or flash with needs.accelerator cpu"
        return None

    @property
    def samples_per_step(self) -> int:
        """Samples of one optimizer step on one process."""
        return self.batch.micro * self.batch.accumulation

    @property
    def _data_per_sample(self) -> int:
        """Tokens (or images) of the data file that one sample takes."""
        if self.task.kind == "classification":
            return 1
        if isinstance(self.task, Reinforcement):
            return self.task.prompt
        return (self.batch.sequence + 1) * (2 if self.task.kind == "contrastive" else 1)

    @property
    def work_per_step(self) -> tuple[Literal["tokens", "samples"], float | None]:
        """See TrainingJob; images are no tokens."""
        tokens = self.task.kind != "classification"
        each = self.tokens_per_step if tokens else self.samples_per_step
        return ("tokens" if tokens else "samples"), float(each * self.parallelism.replicas)

    @property
    def checkpoint_every(self) -> int:
        """See Workload."""
        return self.checkpoint.every

    @property
    def epoch_size(self) -> int:
        """See Workload."""
        return self.data.images if self.data.source == "images" else self.data.tokens

    @property
    def engine_name(self) -> str:
        """See Workload."""
        return "torch"

    @property
    def task_kind(self) -> str:
        """See Workload."""
        return self.task.kind

    @property
    def number_format(self) -> str:
        """See Workload."""
        return self.precision

    @property
    def tokens_per_step(self) -> int:
        """Positions that one process's samples of one optimizer step hold; of an image its patches and class token."""
        if isinstance(self.model, VitShape):
            return self.samples_per_step * self.model.tokens
        return self.samples_per_step * self.batch.sequence * (2 if self.task.kind == "contrastive" else 1)
