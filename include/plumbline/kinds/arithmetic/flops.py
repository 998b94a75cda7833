"""Arithmetic of a model, whatever the kernels do (recomputation, masking, padding do not count), and the published matmul rates of GPUs."""

from __future__ import annotations

from plumbline.declarations.workloads.models import BertShape, HubModel, LlamaShape, TransformerShape, VitShape
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import Lora, Reinforcement, TrainingWorkload


def flops_per_step(workload: TrainingWorkload, *, full_attention: bool = False) -> float | None:
    """Floating-point operations of one optimizer step of one replica; None for a model of undeclared dimensions.

    `full_attention`: masked pairs count too, as in the publications of NVIDIA's recipes, torchtitan and Megatron-LM.

    A backward pass costs twice the forward pass: gradients of activations and of weights. LoRA's frozen weights have no gradients, its adapters
    have. Generated answers cost another forward pass, in which an answer's last token is never read."""
    model, task, samples = workload.model, workload.task, workload.samples_per_step
    if isinstance(model, HubModel):
        return None
    if isinstance(model, VitShape):
        return samples * (3.0 * _image_forward_flops(model) - _patch_embedding_flops(model))  # pixels need no gradient
    if isinstance(task, Reinforcement):
        return samples * 4.0 * _text_forward_flops(model, workload.batch.sequence - 1, full_attention)
    positions = workload.batch.sequence
    forward = _text_forward_flops(model, positions, full_attention)
    if isinstance(task, Lora) and isinstance(model, LlamaShape):
        frozen, learning = 2.0 * model.matmul_parameters * positions, 2.0 * adapter_parameters(model, task) * positions
        return samples * (3.0 * (forward + learning) - frozen)
    return workload.tokens_per_step / positions * 3.0 * forward


def script_flops(workload: ScriptWorkload) -> float | None:
    """Of a token of a script, or of a sample if it counts samples; None if neither they nor a shape are declared."""
    shape = workload.work.shape
    if shape is None:
        return workload.work.flops
    sequence = workload.work.sequence or shape.context
    return 3.0 * forward_flops_per_token(shape, sequence) * (sequence if workload.work_per_step[0] == "samples" else 1)


def script_flops_per_step(workload: ScriptWorkload) -> float | None:
    """Of one step of the whole job; None without them or its work."""
    each, work = script_flops(workload), workload.work_per_step[1]
    return None if each is None or work is None else each * work


def forward_flops_per_token(model: TransformerShape | LlamaShape | BertShape, sequence: int, *, full_attention: bool = False) -> float:
    """Floating-point operations of the forward pass of one token of a sequence.

    2·N + 4·layers·width·k: a multiplication and an addition for each of the N matmul parameters; query i sees k keys, and scores and
    weighted sum take 2·width operations a key each. Under a causal mask k is (sequence + 1)/2 on average: what the mask hides is not
    counted. Without one, and with `full_attention`, k is the sequence.
    """
    keys = sequence if full_attention or isinstance(model, BertShape) else (sequence + 1) / 2
    return 2.0 * model.matmul_parameters + 4.0 * model.layers * model.width * keys


def adapter_parameters(model: LlamaShape, task: Lora) -> int:
    """Parameters of LoRA's adapters: each goes from a projection's width in to the rank, and on to its width out."""
    keys = model.width // model.heads * model.kv_heads
    through = {
        "query": model.width + model.width,
        "key": model.width + keys,
        "value": model.width + keys,
        "output": model.width + model.width,
        "feed_forward": 3 * (model.width + model.feed_forward),
    }
    return model.layers * task.rank * sum(through[target] for target in task.targets)


def _text_forward_flops(model: TransformerShape | LlamaShape | BertShape, positions: int, full_attention: bool) -> float:
    return positions * forward_flops_per_token(model, positions, full_attention=full_attention)


def _image_forward_flops(model: VitShape) -> float:
    layers = 2.0 * model.layers * (4 * model.width**2 + 2 * model.width * model.feed_forward) * model.tokens
    attention = 4.0 * model.layers * model.width * model.tokens**2
    return layers + attention + _patch_embedding_flops(model) + 2.0 * model.width * model.classes


def _patch_embedding_flops(model: VitShape) -> float:
    return 2.0 * 3 * model.patch**2 * model.width * (model.tokens - 1)
