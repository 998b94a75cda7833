"""What a training workload learns: the task decides the loss, what a batch holds and what counts as a sample."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from plumbline.declarations.base import Declared
from plumbline.declarations.units import Percent

LoraTarget = Literal["query", "key", "value", "output", "feed_forward"]


class LanguageModel(Declared):
    """Next-token prediction. Pretraining starts from random weights; fine-tuning loads `stored` ones and learns the responses alone."""

    kind: Literal["language_model"] = "language_model"
    initial: Literal["random", "stored"] = Field(
        "random", description="stored: every process loads the same weights from a safetensors file, as fine-tuning does"
    )
    response_share: Percent = Field(
        1.0, gt=0, le=1, description="part of each sequence, at its end, whose tokens count in the loss: what comes before is the prompt"
    )


class Lora(Declared):
    """Low-rank adapters on a causal LM whose own weights stay as they are (stored ones, loaded by every process)."""

    kind: Literal["lora"]
    rank: int = Field(ge=1, le=1024)
    alpha: float = Field(gt=0, le=4096, description="the adapters' output is scaled by alpha / rank")
    targets: tuple[LoraTarget, ...] = Field(("query", "value"), min_length=1)
    response_share: Percent = Field(1.0, gt=0, le=1)


class Contrastive(Declared):
    """Pairs of texts that belong together (InfoNCE): each text's partner against all other partners of the micro-batch."""

    kind: Literal["contrastive"]
    temperature: float = Field(0.05, gt=0, le=10)


class Classification(Declared):
    """Each image into one of the model's classes."""

    kind: Literal["classification"]


class Reinforcement(Declared):
    """Generate, then update: `group` answers of `generate` tokens to each prompt, rewarded, then one policy-gradient step on all of them.

    The advantage of an answer is its reward less its group's mean, over the group's standard deviation. Reward: share of the answer's
    tokens that the data's own process could have produced there, so that there is something to learn.
    """

    kind: Literal["reinforcement"]
    prompt: int = Field(ge=1, le=1_048_576, description="tokens")
    generate: int = Field(ge=1, le=1_048_576, description="tokens of each answer, exactly")
    group: int = Field(ge=2, le=1024, description="answers to each prompt; batch.micro counts answers and is a multiple of it")
    temperature: float = Field(1.0, gt=0, le=10)


Task = Annotated[LanguageModel | Lora | Contrastive | Classification | Reinforcement, Field(discriminator="kind")]

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "language_model": ("gpt", "llama", "hub"),
    "lora": ("llama", "hub"),
    "contrastive": ("bert",),
    "classification": ("vit",),
    "reinforcement": ("gpt", "llama"),
}
"""The architectures that can be trained for each task."""
