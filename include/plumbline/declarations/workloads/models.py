"""Models by their dimensions, trained or served; weights are random from a seed, except of hub models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from plumbline.declarations.base import Declared
from plumbline.declarations.workloads.workload import Seed


class _MultiHead(Declared):
    """Base of the shapes whose heads share their width."""

    @model_validator(mode="after")
    def _divisible(self) -> _MultiHead:
        width, heads = (getattr(self, name) for name in ("width", "heads"))
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads {heads}; expected width = heads × head size")
        return self


class TransformerShape(_MultiHead):
    """A decoder-only transformer by its dimensions; weights are random from `seed`, nothing is downloaded."""

    architecture: Literal["gpt"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536, description="size of the residual stream; a multiple of heads")
    heads: int = Field(ge=1, le=512)
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576, description="longest sequence, in tokens")
    seed: Seed = 7

    @property
    def parameters(self) -> int:
        """Trainable parameters: token and position embeddings, blocks (attention, MLP, norms with biases), final norm, untied head."""
        block = 12 * self.width**2 + 13 * self.width
        return (2 * self.vocabulary + self.context) * self.width + self.layers * block + 2 * self.width

    @property
    def matmul_parameters(self) -> int:
        """Parameters that are factors of a matrix product: attention and MLP of each layer, and the head.

        Embeddings are looked up; biases and norms are added or scaled: none of them is a product worth counting.
        """
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width


class LlamaShape(Declared):
    """A Llama-shaped causal LM: grouped-query attention, rotary positions, gated MLP, RMS norms, untied head."""

    architecture: Literal["llama"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=64, le=65536)
    heads: int = Field(ge=1, le=512)
    kv_heads: int = Field(ge=1, le=512, description="heads of keys and values; fewer than heads is grouped-query attention")
    feed_forward: int = Field(ge=64, le=1_048_576, description="width of the gated MLP")
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576)
    seed: Seed = 7

    @model_validator(mode="after")
    def _divisible(self) -> LlamaShape:
        if self.width % self.heads or self.heads % self.kv_heads:
            raise ValueError(
                f"width {self.width}, heads {self.heads}, kv_heads {self.kv_heads}; expected width a multiple of heads, and heads of kv_heads"
            )
        return self

    @property
    def parameters(self) -> int:
        """Weights: embeddings and untied head, attention, gated MLP, RMS norms."""
        return self.matmul_parameters + self.vocabulary * self.width + self.layers * 2 * self.width + self.width

    @property
    def matmul_parameters(self) -> int:
        """Parameters that are factors of a matrix product: attention and gated MLP of each layer, and the head."""
        head = self.width // self.heads
        attention = 2 * self.width * self.width + 2 * self.width * self.kv_heads * head
        return self.layers * (attention + 3 * self.width * self.feed_forward) + self.vocabulary * self.width


class BertShape(_MultiHead):
    """A BERT-shaped bidirectional encoder, whose text vector is the mean over its tokens."""

    architecture: Literal["bert"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536, description="a multiple of heads")
    heads: int = Field(ge=1, le=512)
    feed_forward: int = Field(ge=8, le=1_048_576)
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576)
    seed: Seed = 7

    @property
    def matmul_parameters(self) -> int:
        """Parameters that are factors of a matrix product: attention and MLP of each layer."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.feed_forward)


class VitShape(Declared):
    """A vision transformer that sorts square images of three channels into classes."""

    architecture: Literal["vit"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536, description="a multiple of heads")
    heads: int = Field(ge=1, le=512)
    feed_forward: int = Field(ge=8, le=1_048_576)
    image: int = Field(ge=8, le=4096, description="pixels along one edge; a multiple of patch")
    patch: int = Field(ge=1, le=256)
    classes: int = Field(ge=2, le=1_000_000)
    seed: Seed = 7

    @model_validator(mode="after")
    def _divisible(self) -> VitShape:
        if self.width % self.heads or self.image % self.patch:
            raise ValueError(
                f"width {self.width}, heads {self.heads}, image {self.image}, patch {self.patch}; expected width a multiple of heads, "
                "and image of patch"
            )
        return self

    @property
    def tokens(self) -> int:
        """Positions of the transformer: one a patch, and the class token."""
        return (self.image // self.patch) ** 2 + 1

    @property
    def matmul_parameters(self) -> int:
        """Parameters that are factors of a matrix product at each position: attention and MLP of each layer, and the patch embedding."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.feed_forward) + 3 * self.patch**2 * self.width


class HubModel(Declared):
    """A causal LM of the Hugging Face hub, where a network (or a cache that holds it) exists: its configuration and its weights."""

    architecture: Literal["hub"]
    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="owner/name")
    revision: str = Field(pattern=r"^[0-9a-f]{40}$", description="the commit: a branch moves, and a series must not")
    seed: Seed = 7


PATCH_BYTES = 16 * 16 * 3
"""A patch of an image: 16 by 16 pixels of three bytes."""
ServingPrecision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]


class ServedGpt(TransformerShape):
    """The project's own causal LM, which every machine can serve. `precision`: of the weights (int8, fp8, int4) or of all arithmetic."""

    precision: ServingPrecision = "fp32"


class Llama(LlamaShape):
    """A Llama-shaped causal LM for vLLM and TensorRT-LLM."""

    precision: ServingPrecision = "bf16"


class Encoder(_MultiHead):
    """A bidirectional transformer. `task` embedding: a normalised vector a text; reranking: a score for a query and a text; vision: a normalised
    vector an image, whose tokens are patches of 16 by 16 pixels with three bytes each; `vocabulary` is how many different ones there are."""

    architecture: Literal["encoder"]
    task: Literal["embedding", "reranking", "vision"]
    layers: int = Field(ge=1, le=512)
    width: int = Field(ge=8, le=65536)
    heads: int = Field(ge=1, le=512)
    vocabulary: int = Field(ge=16, le=1_000_000)
    context: int = Field(ge=8, le=1_048_576)
    precision: ServingPrecision = "fp32"
    seed: Seed = 7

    @property
    def parameters(self) -> int:
        """Weights: token (of images: patch) and position embeddings, blocks, final norm, and the score's head when reranking."""
        block = 12 * self.width**2 + 13 * self.width
        tokens = PATCH_BYTES + 1 if self.task == "vision" else self.vocabulary
        return (tokens + self.context) * self.width + self.layers * block + 2 * self.width + (self.width + 1) * (self.task == "reranking")


def unsupported_precision(model: ServedGpt | Llama | Encoder, backend: str, accelerator: str) -> str | None:
    """Why a backend cannot serve a model in its declared precision, in words; None if it can."""
    if backend != "python":
        return None
    if model.precision in ("fp8", "int4"):
        return f"model.precision {model.precision} needs server.backend vllm or tensorrtllm; expected fp32, bf16, fp16 or int8 with backend python"
    if model.precision == "fp16" and accelerator == "cpu":
        return "model.precision fp16 needs a GPU; expected fp32, bf16 or int8 with needs.accelerator cpu"
    return None
