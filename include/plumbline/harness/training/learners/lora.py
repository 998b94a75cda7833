"""Next-token prediction by low-rank adapters on a causal LM that stays as it is."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn

from plumbline.harness.training.learners.language_model import LanguageModel
from plumbline.harness.training.plan import WorkerSpec

MODULES = {
    "query": ("q_proj",),
    "key": ("k_proj",),
    "value": ("v_proj",),
    "output": ("o_proj",),
    "feed_forward": ("gate_proj", "up_proj", "down_proj"),
}
"""What a declared target is called in models of the Llama kind."""


class Lora(LanguageModel):
    """Samples and loss are a language model's. The model's state is what learns: adapters alone, as they are kept and handed on."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        super().__init__(spec, replica, replicas)
        task = spec.task
        names = [name for target in task["targets"] for name in MODULES[target]]
        there = {name.rpartition(".")[2] for name, _ in self.model.named_modules()}
        if missing := [name for name in names if name not in there]:
            raise ValueError(
                f"task.targets {task['targets']}: the model {spec.model.get('id', spec.model['architecture'])} has no {', '.join(missing)}; "
                "expected a model whose projections are named as Llama's are"
            )
        torch.manual_seed(spec.model["seed"])  # the base's weights may have been loaded, and chance must not depend on that
        config = LoraConfig(r=task["rank"], lora_alpha=task["alpha"], lora_dropout=0.0, target_modules=names)
        inject_adapter_in_model(config, self.model)
        _keep_what_learns(self.model)


def _keep_what_learns(model: nn.Module) -> None:
    """Leave frozen weights out of the model's state: every process has them from where training began."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}

    def drop(_module: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
        for name in frozen:
            state.pop(prefix + name, None)

    def excuse(_module: nn.Module, found: Any) -> None:
        found.missing_keys[:] = [name for name in found.missing_keys if name not in frozen]

    model.register_state_dict_post_hook(drop)  # type: ignore[no-untyped-call]
    model.register_load_state_dict_post_hook(excuse)  # type: ignore[no-untyped-call]


def build(spec: WorkerSpec, replica: int, replicas: int) -> Lora:
    """See `learner_of`."""
    return Lora(spec, replica, replicas)
