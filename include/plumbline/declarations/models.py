"""Models that an inference workload serves, by their dimensions: weights are random from a seed, nothing is downloaded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from plumbline.declarations.architectures import LlamaShape, TransformerShape
from plumbline.declarations.base import Declared
from plumbline.declarations.units import Percent
from plumbline.declarations.workload import Seed

PATCH_BYTES = 16 * 16 * 3
"""A patch of an image: 16 by 16 pixels of three bytes."""
Precision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]


class ServedGpt(TransformerShape):
    """The project's own causal LM, which every machine can serve. `precision`: of the weights (int8, fp8, int4) or of all arithmetic."""

    precision: Precision = "fp32"


class Llama(LlamaShape):
    """A Llama-shaped causal LM for vLLM and TensorRT-LLM."""

    precision: Precision = "bf16"


class Encoder(Declared):
    """A bidirectional transformer. `task` embedding: a normalised vector a text; reranking: a score for a query and a text; vision: a normalised
    vector an image, whose tokens are patches of 16 by 16 pixels with three bytes each; `vocabulary` is how many different ones there are."""

    architecture: Literal["encoder"]
    task: Literal["embedding", "reranking", "vision"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536)
    heads: int = Field(ge=1, le=512)
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576)
    precision: Precision = "fp32"
    seed: Seed = 7

    @model_validator(mode="after")
    def _divisible(self) -> Encoder:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}; expected width = heads × head size")
        return self

    @property
    def parameters(self) -> int:
        """Weights: token (of images: patch) and position embeddings, blocks, final norm, and the score's head when reranking."""
        block = 12 * self.width**2 + 13 * self.width
        tokens = PATCH_BYTES + 1 if self.task == "vision" else self.vocabulary
        return (tokens + self.context) * self.width + self.layers * block + 2 * self.width + (self.width + 1) * (self.task == "reranking")


ServedModel = Annotated[ServedGpt | Llama | Encoder, Field(discriminator="architecture")]


def unservable(model: ServedGpt | Llama | Encoder, backend: str, accelerator: str) -> str | None:
    """Why a backend cannot serve a model in its declared precision, in words; None if it can."""
    if backend != "python":
        return None
    if model.precision in ("fp8", "int4"):
        return f"model.precision {model.precision} needs server.backend vllm or tensorrtllm; expected fp32, bf16, fp16 or int8 with backend python"
    if model.precision == "fp16" and accelerator == "cpu":
        return "model.precision fp16 needs a GPU; expected fp32, bf16 or int8 with needs.accelerator cpu"
    return None


class Quality(Declared):
    """How much of the reference precision's output a faster precision must keep, on a fixed set of prompts.

    `agreement`: share of tokens that are the reference's, each predicted after the reference's own tokens (teacher forcing); of embeddings
    the least cosine similarity of any vector with the reference's; of rerankers the correlation of the scores with the reference's.
    """

    reference: Precision = "fp32"
    agreement: Percent = Field(gt=0, le=1)
    prompts: int = Field(16, ge=4, le=1024)
