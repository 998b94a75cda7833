"""How much arithmetic the model itself asks for, whatever the kernels really do (recomputation, masking, padding do not count)."""

from __future__ import annotations

from plumbline.declarations.architectures import BertShape, HubModel, LlamaShape, TransformerShape, VitShape
from plumbline.declarations.tasks import Lora, Reinforcement
from plumbline.declarations.training import TrainingWorkload


def flops_per_step(workload: TrainingWorkload) -> float | None:
    """Floating-point operations of one optimizer step of one replica; None of a model whose dimensions nobody declared.

    Each token: 2·N forward, where N are the matmul parameters: a multiplication and an addition each; the gradients of activations and of
    weights cost as much again each, so 6·N in all. LoRA's frozen weights have no gradients of their own: 4·N. Answers that were
    generated cost another forward: 2·N for each of their tokens.
    """
    model, task = workload.model, workload.task
    if isinstance(model, HubModel):
        return None
    factor = 2.0 if isinstance(task, Lora) else 3.0
    step = workload.tokens_per_step * factor * forward_flops_per_token(model, _positions(workload))
    if isinstance(task, Reinforcement):
        step += workload.samples_per_step * workload.batch.sequence * forward_flops_per_token(model, workload.batch.sequence)
    return step


def forward_flops_per_token(model: TransformerShape | LlamaShape | BertShape | VitShape, sequence: int) -> float:
    """Floating-point operations of the forward pass of one token of a sequence.

    2·N + 4·layers·width·k: query i sees k keys; scores and weighted sum take 2·width operations a key each. Under a causal mask k is
    (sequence + 1)/2 on average: what the mask hides is not counted. Without one k is the sequence.
    """
    causal = isinstance(model, (TransformerShape, LlamaShape))
    keys = (sequence + 1) / 2 if causal else sequence
    return 2.0 * model.matmul_parameters + 4.0 * model.layers * model.width * keys


def _positions(workload: TrainingWorkload) -> int:
    if isinstance(workload.model, VitShape):
        return workload.model.tokens
    return workload.batch.sequence
