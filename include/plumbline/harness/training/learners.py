"""Training tasks. A learner owns the model, its batches and its loss; the trainer owns the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plumbline.harness.training import models
from plumbline.harness.training.dataset.synthetic import ImageBatches, TextPairs, TokenBatches, successors
from plumbline.harness.training.worker_protocol import WorkerSpec

Samples = tuple[Tensor, ...]
"""Tensors whose first dimension counts samples, in the order that `Learner.loss` takes them."""


class Learner(ABC):
    """One replica's part in a task. Built alike on every rank, but that rank 0 alone draws weights: the others have them once the model is
    spread over the ranks.

    `replica` of `replicas` decides which part of the data it sees. `model` is on the CPU until the loop moves it; `weights_load_s` are the
    seconds that loading stored weights took, None if they were drawn.
    """

    generates: bool = False
    """Whether `prepared` does anything."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        self.spec, self.task = spec, spec.task
        self.model, self.weights_load_s = models.initial_model(spec.model, weights=spec.weights, draws=spec.draws)
        self._samples = spec.micro * spec.accumulation
        self._share: dict[str, int] = {"seed": spec.seed, "replica": replica, "replicas": replicas}

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The model's repeated layers: what is sharded, checkpointed and compiled one by one."""
        return models.repeated_layers(self.model)

    @abstractmethod
    def batch(self, step: int) -> Samples:
        """The samples of one step of this replica, on the CPU: micro × accumulation of them."""

    def prepared(self, model: nn.Module, samples: Samples) -> Samples:
        """Prepare the samples of a step on the device before the loss (such as generating answers). No gradients.

        `model` is the replica as the loop wraps it.
        """
        return samples

    @abstractmethod
    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        """The mean loss (scalar, fp32) of a micro-batch; `model` is the replica as the loop wraps it."""


def build_learner(spec: WorkerSpec, replica: int, replicas: int) -> Learner:
    module, _, name = spec.task["learner"].partition(":")
    learner: Callable[[WorkerSpec, int, int], Learner] = getattr(import_module(module), name)
    return learner(spec, replica, replicas)


class TokenModel(Learner):
    """Samples: token ids int64 (samples, sequence + 1)."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        self._batches = TokenBatches(spec.data, sequences=self._samples, sequence=spec.sequence, **self._share)

    def batch(self, step: int) -> Samples:
        return (torch.from_numpy(self._batches.of(step)),)


def _token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class LanguageModel(TokenModel):
    """Inputs are all token ids but the last, targets all but the first.

    Only the last `responses` targets of a sequence count: what comes before is the prompt.
    """

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        share = float(spec.task["response_share"].removesuffix("%")) / 100
        self._responses = max(1, round(share * spec.sequence))
        # Logits are the largest tensor of a step: compiled, the loss makes no fp32 copy of them.
        self._token_loss = torch.compile(_token_loss) if spec.compile else _token_loss

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        (ids,) = samples
        logits, targets = model(ids[:, :-1]), ids[:, 1:]
        if self._responses < targets.shape[1]:
            # Only where there is something to cut, since backward copies what was cut.
            logits, targets = logits[:, -self._responses :], targets[:, -self._responses :]
        return self._token_loss(logits, targets)


TARGET_MODULES = {
    "query": ("q_proj",),
    "key": ("k_proj",),
    "value": ("v_proj",),
    "output": ("o_proj",),
    "feed_forward": ("gate_proj", "up_proj", "down_proj"),
}
"""Modules of each declared target in Llama models."""


class Lora(LanguageModel):
    """Samples and loss are a language model's. The model's state is what learns: adapters alone, as they are kept and handed on."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        from peft import LoraConfig, inject_adapter_in_model

        super().__init__(spec, replica, replicas)
        task = spec.task
        names = [name for target in task["targets"] for name in TARGET_MODULES[target]]
        there = {name.rpartition(".")[2] for name, _ in self.model.named_modules()}
        if missing := [name for name in names if name not in there]:
            raise ValueError(
                f"task.targets {task['targets']}: the model {spec.model.get('id', spec.model['architecture'])} has no {', '.join(missing)}; "
                "expected a model whose projections are named as Llama's are"
            )
        torch.manual_seed(spec.model["seed"])  # the base's weights may have been loaded, and chance must not depend on that
        config = LoraConfig(r=task["rank"], lora_alpha=task["alpha"], lora_dropout=0.0, target_modules=names)
        inject_adapter_in_model(config, self.model)
        _drop_frozen_from_state(self.model)


def _drop_frozen_from_state(model: nn.Module) -> None:
    """Leave frozen weights out of the model's state: every process has them from where training began."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}

    def drop(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
        for name in frozen:
            state.pop(prefix + name, None)

    def excuse(_module: nn.Module, incompatible: Any) -> None:
        incompatible.missing_keys[:] = [name for name in incompatible.missing_keys if name not in frozen]

    model.register_state_dict_post_hook(drop)  # type: ignore[no-untyped-call]
    model.register_load_state_dict_post_hook(excuse)  # type: ignore[no-untyped-call]


class Classification(Learner):
    """Samples: images uint8 (samples, 3, edge, edge), which the device makes numbers of, and classes int64 (samples)."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        self._images = ImageBatches(spec.data, classes=spec.model["classes"], images=self._samples, **self._share)

    def batch(self, step: int) -> Samples:
        images, classes = self._images.of(step)
        return torch.from_numpy(images), torch.from_numpy(classes)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        images, classes = samples
        return F.cross_entropy(model(images).float(), classes)


class Contrastive(Learner):
    """Samples: token ids int64 (pairs, 2, sequence)."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        self._pairs = TextPairs(spec.data, pairs=self._samples, sequence=spec.sequence, **self._share)

    def batch(self, step: int) -> Samples:
        return (torch.from_numpy(self._pairs.of(step)),)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        (pairs,) = samples
        # One call for both: a replica whose gradients are averaged is called once for each backward.
        vectors = F.normalize(model(pairs.flatten(0, 1)).float(), dim=-1).view(len(pairs), 2, -1)
        likeness = vectors[:, 0] @ vectors[:, 1].T / self.task["temperature"]
        return F.cross_entropy(likeness.float(), torch.arange(len(pairs), device=pairs.device))


_EPSILON = 1e-6


class Reinforcement(Learner):
    """Samples: prompts int64 (answers, prompt) and the chance of each token to come, uniform in [0, 1), float32 (answers, generate).

    Prepared: prompts with their answers int64 (answers, sequence), advantages and rewards float32 (answers). All chance comes with the
    batch: a step that is done again after a restart gives the same answers.
    """

    generates = True

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        self._prompt: int = self.task["prompt"]
        self._generate: int = self.task["generate"]
        self._group: int = self.task["group"]
        self._temperature: float = self.task["temperature"]
        if spec.data.seed is None:
            raise ValueError("reinforcement needs generated data, whose process gives the reward; expected data.source synthetic")
        self._successors = torch.from_numpy(successors(spec.model["vocabulary"], spec.data.seed))
        self._batches = TokenBatches(spec.data, sequences=self._samples // self._group, sequence=self._prompt - 1, **self._share)

    def batch(self, step: int) -> Samples:
        prompts = np.repeat(self._batches.of(step), self._group, axis=0)
        chance = self._batches.random(step, stream=1).random((self._samples, self._generate), dtype=np.float32)
        return torch.from_numpy(prompts), torch.from_numpy(chance)

    def prepared(self, model: nn.Module, samples: Samples) -> Samples:
        prompts, chance = samples
        with torch.no_grad():
            ids = self._generate_answers(model, prompts, chance)
            rewards = self._rewards(ids)
            groups = rewards.view(-1, self._group)
            spread = groups.std(dim=1, correction=0, keepdim=True)
            advantages = (groups - groups.mean(dim=1, keepdim=True)) / (spread + _EPSILON)
        return ids, advantages.flatten(), rewards

    def _generate_answers(self, model: nn.Module, prompts: Tensor, chance: Tensor) -> Tensor:
        ids, cache = prompts, models.new_cache(self.model)
        unseen = prompts
        for position in range(self._generate):
            logits = (model(ids) if cache is None else model(unseen, cache))[:, -1]
            ladder = torch.softmax(logits.float() / self._temperature, dim=-1).cumsum(dim=-1)
            # The ladder's last rung is 1 but for rounding; measured by it, no chance falls off its end.
            drawn = torch.searchsorted(ladder, chance[:, position, None] * ladder[:, -1:], right=True)
            unseen = drawn.clamp(max=ladder.shape[1] - 1)
            ids = torch.cat([ids, unseen], dim=1)
        return ids

    def _rewards(self, ids: Tensor) -> Tensor:
        """Share of each answer's tokens that the text's own process could have written after the token before them: (answers)."""
        self._successors = self._successors.to(ids.device)
        possible = self._successors[ids[:, self._prompt - 1 : -1]]
        return (possible == ids[:, self._prompt :, None]).any(dim=-1).float().mean(dim=1)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        """Its gradient is the policy's; its value is 1 - the mean reward, which falls as the answers get better.

        The value of what is differentiated says nothing: advantages of a group add up to 0.
        """
        ids, advantages, rewards = samples
        logits = model(ids[:, :-1])[:, self._prompt - 1 :].float() / self._temperature
        chosen = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, self._prompt :, None]).squeeze(-1)
        objective = -(advantages[:, None] * chosen).mean()
        return objective - objective.detach() + (1.0 - rewards.mean())
