from __future__ import annotations

import pytest

from plumbline.declarations.workloads.models import Encoder, Llama, ServedGpt, unsupported_precision

GPT = {"architecture": "gpt", "layers": 2, "width": 64, "heads": 4, "vocabulary": 256, "context": 64, "seed": 1}
LLAMA = {
    "architecture": "llama",
    "layers": 2,
    "width": 256,
    "heads": 8,
    "kv_heads": 2,
    "feed_forward": 512,
    "vocabulary": 256,
    "context": 64,
}


@pytest.mark.parametrize(
    ("precision", "accelerator", "why"),
    [
        ("fp8", "nvidia", "fp8 needs server.backend vllm or tensorrtllm"),
        ("int4", "cpu", "int4 needs server.backend vllm or tensorrtllm"),
        ("fp16", "cpu", "fp16 needs a GPU"),
    ],
)
def test_what_the_python_backend_cannot_serve_is_said(precision: str, accelerator: str, why: str) -> None:
    refusal = unsupported_precision(ServedGpt.model_validate(GPT | {"precision": precision}), "python", accelerator)
    assert refusal is not None and why in refusal and "expected" in refusal


@pytest.mark.parametrize(
    ("precision", "accelerator"), [("fp32", "cpu"), ("bf16", "cpu"), ("int8", "cpu"), ("fp16", "nvidia"), ("bf16", "amd")]
)
def test_what_it_can_serve(precision: str, accelerator: str) -> None:
    assert unsupported_precision(ServedGpt.model_validate(GPT | {"precision": precision}), "python", accelerator) is None


def test_other_backends_decide_for_themselves() -> None:
    assert unsupported_precision(Llama.model_validate(LLAMA | {"precision": "fp8"}), "vllm", "nvidia") is None


def test_parameters_are_counted() -> None:
    """By hand: two embeddings of 256 × 256; a layer's q and o 256², k and v 256 × 64 each, three of 256 × 512, two norms; a last norm."""
    layer = 2 * 256**2 + 2 * 256 * 64 + 3 * 256 * 512 + 2 * 256
    assert Llama.model_validate(LLAMA).parameters == 2 * 256 * 256 + 2 * layer + 256
    shape = {"layers": 1, "width": 8, "heads": 2, "vocabulary": 16, "context": 8}
    block = (3 * 64 + 24) + (64 + 8) + (4 * 64 + 32) + (4 * 64 + 8) + 4 * 8
    for task, head in (("embedding", 0), ("reranking", 9)):
        assert Encoder.model_validate({"architecture": "encoder", "task": task, **shape}).parameters == (16 + 8) * 8 + block + 16 + head
